package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vdi-fleet/vdi-fleet/test/harness/workdir"
)

// modulePath distinguishes the repository's root from other directories with a go.mod.
const modulePath = "module github.com/vdi-fleet/vdi-fleet\n"

// Root returns the root of the repository: the nearest directory above the working
// directory that holds this module, or $VDI_FLEET_ROOT.
func Root() (string, error) {
	if root := os.Getenv("VDI_FLEET_ROOT"); root != "" {
		return root, nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the repository's root: %w", err)
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), modulePath) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("finding the repository's root: not inside it, set VDI_FLEET_ROOT")
		}
		dir = parent
	}
}

// makeTargets are the make targets that build a binary, for the error message.
var makeTargets = map[string]string{"hub": "build", "agent": "build", "fleet": "build", "karpenter": "karpenter"}

// binary returns the path of bin/NAME.
func binary(name string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", name)
	if _, err := os.Stat(path); err != nil {
		target := makeTargets[name]
		if target == "" {
			target = "controlplane"
		}
		return "", fmt.Errorf("bin/%s is missing: run `make %s`", name, target)
	}
	return path, nil
}

// newWorkdir makes the directory of a fleet or control plane, once its binaries are there.
func newWorkdir(dir string, keep, detach bool) (*workdir.Dir, error) {
	if _, err := binary("controlplane"); err != nil {
		return nil, err
	}
	return workdir.New(dir, keep, detach)
}
