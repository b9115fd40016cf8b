package lint

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/mod/modfile"
)

// Modules that are built beside the main one share its compiled packages only if all the
// versions are the same; otherwise a first build compiles client-go once for each.
func TestModulesShareTheVersionsOfTheMainModule(t *testing.T) {
	main := requirements(t, "go.mod")
	for _, file := range []string{"test/controlplane/go.mod", "tools/helm/go.mod"} {
		for module, version := range requirements(t, file) {
			if want, shared := main[module]; shared && version != want {
				t.Errorf("%s requires %s %s, and go.mod %s: run `go get %s@%s && go mod tidy` in its directory", file, module, version, want, module, want)
			}
		}
	}
}

// requirements returns the versions that a go.mod file requires, by module.
func requirements(t *testing.T, file string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := modfile.ParseLax(file, content, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, r := range parsed.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions
}
