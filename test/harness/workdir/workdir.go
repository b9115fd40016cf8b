package workdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Dir is the directory of a fleet or of a single control plane, its reserved ports, and
// the reaper that removes it if this process cannot.
type Dir struct {
	Path string

	keep   bool
	reaper *reaper
	once   sync.Once
	err    error
}

// New makes the directory, a temporary one if dir is "". Otherwise dir must not exist yet,
// or be empty: Close removes it. With keep it stays; with detach no reaper is started.
func New(dir string, keep, detach bool) (*Dir, error) {
	dir, err := makeDir(dir)
	if err != nil {
		return nil, fmt.Errorf("making the fleet's directory: %w", err)
	}
	d := &Dir{Path: dir, keep: keep}
	if !keep && !detach {
		if d.reaper, err = startReaper(dir); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return d, nil
}

func makeDir(dir string) (string, error) {
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

// Close releases the ports and removes the directory unless it is kept.
func (d *Dir) Close() error {
	d.once.Do(func() {
		d.err = ReleasePorts(d.Path)
		if !d.keep {
			d.err = errors.Join(d.err, os.RemoveAll(d.Path))
		}
		d.reaper.dismiss()
	})
	return d.err
}
