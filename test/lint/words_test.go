package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// privateWords are words for which docs/glossary.md has other terms.
var privateWords = regexp.MustCompile(`(?i)\b(anew|heard|hears|told|tells?|judged?|room|sketch|strangers?|given up|gives? up|let go|lets go|operator's word|no word)\b`)

// shipped are the directories whose messages users and operators see.
var shipped = []string{"api/", "hub/", "agent/", "cmd/", "proto/"}

// camelCase finds where a word of an identifier ends.
var camelCase = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// Messages, metric help, CLI texts, reasons and field names are string literals and
// identifiers; kubectl explain shows the comments of the API.
func TestMessagesUseTheTermsOfTheGlossary(t *testing.T) {
	for _, f := range goFiles(t) {
		if f.test() || f.generated() || !slices.ContainsFunc(shipped, func(tree string) bool { return strings.HasPrefix(f.path, tree) }) {
			continue
		}
		check := func(n ast.Node, text string) {
			if word := privateWords.FindString(text); word != "" {
				t.Errorf("%s: %q is not the field's term, see docs/glossary.md: %s", f.at(n), word, text)
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				check(n, camelCase.ReplaceAllString(n.Name, "$1 $2"))
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
					check(n, camelCase.ReplaceAllString(text, "$1 $2"))
				}
			}
			return true
		})
		if strings.HasPrefix(f.path, "api/") {
			for _, comment := range f.syntax.Comments {
				check(comment, comment.Text())
			}
		}
	}
}

func TestPagesUseTheTermsOfTheGlossary(t *testing.T) {
	for name, content := range text(t, ".md", ".yaml", ".json", ".txt", ".tpl", "Makefile") {
		if !slices.ContainsFunc([]string{"docs/", "deploy/", "api/", "README.md", "CONTRIBUTING.md", "Makefile", "tools/README.md"},
			func(tree string) bool { return strings.HasPrefix(name, tree) }) || name == "docs/glossary.md" {
			continue
		}
		line := 0
		for row := range strings.Lines(content) {
			line++
			if word := privateWords.FindString(row); word != "" {
				t.Errorf("%s:%d: %q is not the field's term, see docs/glossary.md", name, line, word)
			}
		}
	}
}
