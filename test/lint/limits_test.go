package lint

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// A package, type, interface or struct beyond these sizes has more than one purpose.
const (
	maxFiles            = 25
	maxMethods          = 25
	maxInterfaceMethods = 7
	maxFields           = 20
)

// sizes are the measured sizes, by what is measured and its name.
type sizes map[string]int

func (s sizes) check(t *testing.T, what string, most int) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if s[name] > most {
			t.Errorf("%s has %d %s, at most %d: split it", name, s[name], what, most)
		}
	}
}

func TestNothingIsTooLargeForOneThing(t *testing.T) {
	files, methods, interfaces, fields := sizes{}, sizes{}, sizes{}, sizes{}
	for _, f := range goFiles(t) {
		if f.test() || f.generated() {
			continue
		}
		pkg := path.Dir(f.path)
		files[pkg]++
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil {
					methods[pkg+"."+receiver(n.Recv.List[0].Type)]++
				}
			case *ast.TypeSpec:
				name := pkg + "." + n.Name.Name
				switch of := n.Type.(type) {
				case *ast.InterfaceType:
					interfaces[name] = len(of.Methods.List)
				case *ast.StructType:
					if !strings.HasPrefix(pkg, "api/") {
						fields[name] = of.Fields.NumFields()
					}
				}
			}
			return true
		})
	}
	files.check(t, "files", maxFiles)
	methods.check(t, "methods", maxMethods)
	interfaces.check(t, "methods of an interface", maxInterfaceMethods)
	fields.check(t, "fields", maxFields)
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	}
	return fmt.Sprint(t)
}
