package lint

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what is generated from the code again")

// The markers of the generated tables in reasonsFile.
const (
	reasonsFile  = "api/README.md"
	reasonsBegin = "<!-- reasons: generated from conditions.go and events.go by go test ./test/lint -args -update -->"
	reasonsEnd   = "<!-- end of reasons -->"
)

func TestTheDocumentationListsEveryConditionReasonAndEvent(t *testing.T) {
	path := filepath.Join(root, reasonsFile)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, table, begins := strings.Cut(string(content), reasonsBegin)
	_, after, ends := strings.Cut(table, reasonsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the reasons", reasonsFile)
	}
	want := before + reasonsBegin + "\n\n" + reasonsTable(t) + reasonsEnd + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(content)); diff != "" {
		t.Errorf("%s is stale, write it again with -update (-want +got):\n%s", reasonsFile, diff)
	}
}

// reasonsTable renders every block of constants of conditions.go and events.go.
func reasonsTable(t *testing.T) string {
	var decls []ast.Decl
	for _, file := range []string{"conditions.go", "events.go"} {
		syntax, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "api/v1alpha1", file), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		decls = append(decls, syntax.Decls...)
	}
	var b strings.Builder
	for _, decl := range decls {
		block, ok := decl.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		title, _, _ := strings.Cut(oneLine(block.Doc), ". ")
		fmt.Fprintf(&b, "### %s\n\n| | |\n|---|---|\n", strings.TrimSuffix(title, "."))
		for _, spec := range block.Specs {
			value := spec.(*ast.ValueSpec)
			name := value.Names[0].Name
			_, meaning, documented := strings.Cut(oneLine(value.Doc), ": ")
			if _, writer, found := strings.Cut(oneLine(value.Doc), " ("); !documented && found {
				meaning, documented = writer, true
			}
			if strings.HasPrefix(name, "Condition") {
				_, meaning, documented = strings.Cut(oneLine(value.Doc), " ")
			}
			if !documented || meaning == "" {
				t.Errorf("%s has no comment that explains it", name)
			}
			text, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", text, meaning)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func oneLine(doc *ast.CommentGroup) string {
	return strings.Join(strings.Fields(doc.Text()), " ")
}
