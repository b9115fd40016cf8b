package faults

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

func newMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// apiServers takes away what all state lives in.
func apiServers() []scenario {
	return []scenario{
		{name: "hub-api-down", do: func(ctx context.Context, r *run) error {
			return apiDown(ctx, r, r.fleet.Hub.ControlPlane)
		}},
		{name: "member-api-down", do: func(ctx context.Context, r *run) error {
			return apiDown(ctx, r, r.member().ControlPlane)
		}},
		{name: "member-etcd-stop", do: func(ctx context.Context, r *run) error {
			return etcdFrozen(ctx, r, r.member().ControlPlane)
		}},
	}
}

// apiDown kills an API server and leaves it dead for a minute.
func apiDown(ctx context.Context, r *run, cp *harness.ControlPlane) error {
	if err := r.moment(ctx, 10*time.Second); err != nil {
		return err
	}
	r.harm("kill -9 %s", cp.APIServer.Spec.Name)
	if err := cp.APIServer.Kill(); err != nil {
		return err
	}
	if err := r.pause(ctx, time.Minute); err != nil {
		return err
	}
	r.harm("%s starts again", cp.APIServer.Spec.Name)
	return revive(ctx, cp)
}

// etcdFrozen lets an API server answer nothing and refuse nothing.
func etcdFrozen(ctx context.Context, r *run, cp *harness.ControlPlane) error {
	r.harm("SIGSTOP %s for %s", cp.Etcd.Spec.Name, r.scaled(30*time.Second))
	if err := cp.Etcd.Pause(); err != nil {
		return err
	}
	if err := r.pause(ctx, 30*time.Second); err != nil {
		return err
	}
	r.harm("SIGCONT %s", cp.Etcd.Spec.Name)
	return cp.Etcd.Resume()
}
