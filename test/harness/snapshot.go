package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// SaveEtcd copies etcd under a name, for RestoreEtcd. API server and etcd are stopped
// meanwhile, so that the copy is consistent.
func (cp *ControlPlane) SaveEtcd(ctx context.Context, name string) error {
	err := cp.withoutEtcd(ctx, func() error {
		return os.CopyFS(cp.components.EtcdCopy(name), os.DirFS(cp.components.EtcdData()))
	})
	if err != nil {
		return fmt.Errorf("saving the etcd of %s: %w", cp.Name, err)
	}
	return nil
}

// RestoreEtcd replaces etcd by a copy, as after a disaster. Clients have received later
// resource versions than the copy has, so each watch must start over: the controller manager
// and Karpenter are restarted here, and the watch of the hub's Service is replaced.
func (cp *ControlPlane) RestoreEtcd(ctx context.Context, name string) error {
	err := cp.withoutEtcd(ctx, func() error {
		if err := os.RemoveAll(cp.components.EtcdData()); err != nil {
			return err
		}
		return os.CopyFS(cp.components.EtcdData(), os.DirFS(cp.components.EtcdCopy(name)))
	})
	for _, restored := range cp.restored {
		if err == nil {
			err = restored(ctx)
		}
	}
	for _, process := range []*Process{cp.ControllerManager, cp.Karpenter.process()} {
		if err == nil && process != nil {
			err = errors.Join(process.Kill(), process.Start())
		}
	}
	if err != nil {
		return fmt.Errorf("restoring the etcd of %s: %w", cp.Name, err)
	}
	return nil
}

// withoutEtcd calls do while neither API server nor etcd runs, and starts them again.
func (cp *ControlPlane) withoutEtcd(ctx context.Context, do func() error) error {
	if err := errors.Join(cp.APIServer.Kill(), cp.Etcd.Kill()); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return cp.runAPI(ctx)
}
