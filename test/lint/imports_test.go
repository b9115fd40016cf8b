package lint

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/vdi-fleet/vdi-fleet/"

// importRow is a row of the table "Imports between packages" of docs/architecture.md.
var importRow = regexp.MustCompile("(?m)^\\| `((?:hub|agent)(?:/[a-z/]+)?)` \\| (.*) \\|$")

// TestImportsAreAsDocumented compares the imports among the packages of hub and of agent with
// the table.
func TestImportsAreAsDocumented(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(content), "## Imports between packages")
	if !found {
		t.Fatal("docs/architecture.md has no table of imports")
	}
	imports := importsOfSides(t)
	documented := map[string]map[string]bool{}
	for _, row := range importRow.FindAllStringSubmatch(table, -1) {
		side, _, _ := strings.Cut(row[1], "/")
		documented[row[1]] = map[string]bool{}
		for _, name := range regexp.MustCompile("`([a-z/]+)`").FindAllStringSubmatch(row[2], -1) {
			documented[row[1]][side+"/"+name[1]] = true
		}
		if row[2] == "all of its packages" {
			documented[row[1]] = imports[row[1]]
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(imports)) {
		want := slices.Sorted(maps.Keys(documented[pkg]))
		got := slices.Sorted(maps.Keys(imports[pkg]))
		if diff := cmp.Diff(want, got); diff != "" && len(want)+len(got) > 0 {
			t.Errorf("%s imports otherwise than in docs/architecture.md (-documented +imported):\n%s", pkg, diff)
		}
	}
	for pkg := range documented {
		if imports[pkg] == nil {
			t.Errorf("docs/architecture.md names the imports of %s, which does not exist", pkg)
		}
	}
}

// TestNothingImportsUpward checks that no package imports one that contains it.
func TestNothingImportsUpward(t *testing.T) {
	for pkg, imports := range importsOfSides(t) {
		for imported := range imports {
			if strings.HasPrefix(pkg, imported+"/") {
				t.Errorf("%s imports %s, which it is a part of", pkg, imported)
			}
		}
	}
}

// importsOfSides returns the packages of hub and agent, with their imports of the same side.
func importsOfSides(t *testing.T) map[string]map[string]bool {
	t.Helper()
	out := map[string]map[string]bool{}
	for _, f := range goFiles(t) {
		side, _, _ := strings.Cut(f.path, "/")
		if f.test() || side != "hub" && side != "agent" || strings.HasSuffix(path.Dir(f.path), "test") {
			continue
		}
		pkg := path.Dir(f.path)
		if out[pkg] == nil {
			out[pkg] = map[string]bool{}
		}
		for _, spec := range f.syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if own, found := strings.CutPrefix(imported, module); found && (own == side || strings.HasPrefix(own, side+"/")) {
				out[pkg][own] = true
			}
		}
	}
	return out
}
