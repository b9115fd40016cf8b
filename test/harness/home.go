package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// A home is the directory of a fleet or of a single control plane, its reserved
// ports, and the reaper that removes it if we can't.
type home struct {
	dir    string
	keep   bool
	reaper *reaper
	once   sync.Once
	err    error
}

// newHome makes the directory, a temporary one if dir is "". A given one must
// not exist yet, or be empty: it will be removed.
func newHome(dir string, keep, detach bool) (*home, error) {
	if err := ensureBinaries(); err != nil {
		return nil, err
	}
	dir, err := makeHome(dir)
	if err != nil {
		return nil, fmt.Errorf("making the fleet's directory: %w", err)
	}
	h := &home{dir: dir, keep: keep}
	if !keep && !detach {
		if h.reaper, err = startReaper(dir); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return h, nil
}

func makeHome(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "vdi-fleet-")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty", dir)
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// close gives back the ports and removes the directory unless it is kept.
func (h *home) close() error {
	h.once.Do(func() {
		h.err = releasePorts(h.dir)
		if !h.keep {
			h.err = errors.Join(h.err, os.RemoveAll(h.dir))
		}
		h.reaper.dismiss()
	})
	return h.err
}
