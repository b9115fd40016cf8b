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

// Messages, metric help and CLI texts are string literals with spaces; kubectl explain shows
// the comments of the API.
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
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING && strings.Contains(literal.Value, " ") {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					check(literal, text)
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
