package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// SaveEtcd keeps a copy of all that the control plane's API server holds, under
// a name, for RestoreEtcd. API server and etcd are stopped meanwhile, so that
// the copy is of one moment.
func (cp *ControlPlane) SaveEtcd(ctx context.Context, name string) error {
	err := cp.withoutEtcd(ctx, func() error {
		return os.CopyFS(cp.etcdCopy(name), os.DirFS(cp.etcdData()))
	})
	if err != nil {
		return fmt.Errorf("saving the etcd of %s: %w", cp.Name, err)
	}
	return nil
}

// RestoreEtcd puts a copy back in the place of what there is, as after a
// disaster. Its clients have seen later resource versions than there are now:
// whoever watches must start over. The controller manager is restarted here,
// and the agents' way to the hub's Service is told.
func (cp *ControlPlane) RestoreEtcd(ctx context.Context, name string) error {
	err := cp.withoutEtcd(ctx, func() error {
		if err := os.RemoveAll(cp.etcdData()); err != nil {
			return err
		}
		return os.CopyFS(cp.etcdData(), os.DirFS(cp.etcdCopy(name)))
	})
	for _, tell := range cp.restored {
		if err == nil {
			err = tell(ctx)
		}
	}
	if err == nil && cp.ControllerManager != nil {
		err = errors.Join(cp.ControllerManager.Kill(), cp.ControllerManager.Start())
	}
	if err != nil {
		return fmt.Errorf("restoring the etcd of %s: %w", cp.Name, err)
	}
	return nil
}

func (cp *ControlPlane) etcdData() string { return filepath.Join(cp.Dir, "etcd") }

func (cp *ControlPlane) etcdCopy(name string) string { return filepath.Join(cp.Dir, "etcd-"+name) }

// withoutEtcd does something while neither API server nor etcd runs, and starts
// them again.
func (cp *ControlPlane) withoutEtcd(ctx context.Context, do func() error) error {
	if err := errors.Join(cp.APIServer.Kill(), cp.Etcd.Kill()); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	if err := cp.Etcd.Start(); err != nil {
		return err
	}
	if err := cp.Etcd.WaitUntil(ctx, dial(cp.ports.etcd)); err != nil {
		return err
	}
	if err := cp.APIServer.Start(); err != nil {
		return err
	}
	return cp.WaitAPI(ctx)
}
