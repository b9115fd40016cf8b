package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityStatementsNameTestsThatExist keeps docs/security.md correct: what it states
// that a party cannot do is shown by the tests in the last column of its tables.
func TestSecurityStatementsNameTestsThatExist(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/security.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := textOfTests(t)
	quoted := regexp.MustCompile("`([^`]+)`")
	shown, found := false, 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case !strings.HasPrefix(line, "|"):
			shown = false
		case strings.TrimSpace(cells[len(cells)-1]) == "tested by":
			shown = true
		case shown:
			for _, name := range quoted.FindAllStringSubmatch(cells[len(cells)-1], -1) {
				if strings.HasPrefix(name[1], "make ") {
					continue
				}
				found++
				if !strings.Contains(tests, name[1]) {
					t.Errorf("docs/security.md names %q, and no test does", name[1])
				}
			}
		}
	}
	if found == 0 {
		t.Error("docs/security.md names no test")
	}
}

// textOfTests returns the text of all tests, and of the scenarios of test/faults.
func textOfTests(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") ||
			!strings.HasSuffix(path, "_test.go") && !strings.Contains(filepath.ToSlash(path), "test/faults/") || strings.HasSuffix(path, "security_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
