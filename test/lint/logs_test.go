package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logsFile has the table of transitions, with messages in its first column.
const logsFile = "deploy/observability/README.md"

var (
	logRow   = regexp.MustCompile(`(?m)^\| ([A-Z][^|` + "`" + `]+) \| (?:hub|agent) \|`)
	camelKey = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
)

// production returns the files of the two binaries, except tests.
func production(t *testing.T) []file {
	t.Helper()
	return slices.DeleteFunc(slices.Clone(goFiles(t)), func(f file) bool {
		shipped := strings.HasPrefix(f.path, "hub/") || strings.HasPrefix(f.path, "agent/") || strings.HasPrefix(f.path, "proto/tracing/")
		return f.test() || f.generated() || !shipped
	})
}

// TestLogsOfTransitionsAreThoseThatAreDocumented checks that the table has every constant of
// a transition, and no other message.
func TestLogsOfTransitionsAreThoseThatAreDocumented(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, logsFile))
	if err != nil {
		t.Fatal(err)
	}
	section, _, _ := strings.Cut(string(content), "## Traces")
	documented := map[string]bool{}
	for _, row := range logRow.FindAllStringSubmatch(section, -1) {
		documented[row[1]] = true
	}
	logged := map[string]bool{}
	for _, f := range production(t) {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for i, name := range spec.Names {
					if strings.HasPrefix(strings.ToLower(name.Name), "transition") && len(spec.Values) > i && !documented[literal(spec.Values[i])] {
						t.Errorf("%s: %q is not in %s", f.at(n), literal(spec.Values[i]), logsFile)
					}
				}
			}
			if text, ok := n.(*ast.BasicLit); ok {
				logged[literal(text)] = true
			}
			return true
		})
	}
	for message := range documented {
		if !logged[message] {
			t.Errorf("%s documents %q, which nothing logs", logsFile, message)
		}
	}
	if len(documented) < 20 {
		t.Errorf("%s has a table of %d transitions", logsFile, len(documented))
	}
}

// Constant messages can be searched and counted.
func TestLogsAreConstantMessagesWithKeys(t *testing.T) {
	lines := 0
	for _, f := range production(t) {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, args, isLog := logged(call)
			if !isLog {
				return true
			}
			lines++
			if _, combined := args[0].(*ast.BinaryExpr); combined {
				t.Errorf("%s: the message of %s is not constant", f.at(n), method)
			}
			for i := 1; i < len(args); i += 2 {
				if key := literal(args[i]); key != "" && !camelKey.MatchString(key) {
					t.Errorf("%s: the key %q is not in lowerCamel", f.at(n), key)
				}
			}
			return true
		})
	}
	if lines < 40 {
		t.Errorf("only %d lines of the log were found", lines)
	}
}

// logged returns the message and the pairs of a call that logs.
func logged(call *ast.CallExpr) (method string, args []ast.Expr, ok bool) {
	selector, isSelector := call.Fun.(*ast.SelectorExpr)
	if !isSelector || len(call.Args) == 0 {
		return "", nil, false
	}
	text := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.BasicLit:
			return e.Kind == token.STRING
		case *ast.BinaryExpr:
			return true
		}
		return false
	}
	switch selector.Sel.Name {
	case "Info":
		args = call.Args
	case "Error":
		args = call.Args[1:]
	}
	return selector.Sel.Name, args, len(args) > 0 && text(args[0])
}

func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}
