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

// watchBackoff is how long client-go may wait before it watches again, once an API
// server is back: it doubles up to 30 s and is drawn out by as much again, for the
// product, the controller manager and the simulated kubelets alike.
const watchBackoff = 60 * time.Second

// apiServers takes away what all state lives in.
func apiServers() []scenario {
	return []scenario{
		{name: "hub-api-down", slack: watchBackoff, ends: true, do: func(ctx context.Context, r *run) error {
			return apiDown(ctx, r, r.fleet.Hub.ControlPlane)
		}},
		{name: "member-api-down", slack: watchBackoff, do: func(ctx context.Context, r *run) error {
			return apiDown(ctx, r, r.member().ControlPlane)
		}},
		{name: "member-etcd-stop", slack: watchBackoff, do: func(ctx context.Context, r *run) error {
			return etcdFrozen(ctx, r, r.member().ControlPlane)
		}},
		{name: "hub-cut-from-api", slack: watchBackoff, ends: true, do: hubCutFromAPI},
		{name: "hub-cache-slow", slack: watchBackoff, ends: true, do: hubCacheSlow},
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

// hubCutFromAPI leaves the leader its agents and takes its API server away, for
// longer than its lock holds.
func hubCutFromAPI(ctx context.Context, r *run) error {
	leader, err := r.leader(ctx)
	if err != nil {
		return err
	}
	r.harm("%s (leader) is cut off from its API server, without a reset", leader.Spec.Name)
	r.apiWires[leader.Spec.Name].set(weather{CutToHub: true, CutToAgent: true})
	if err := r.pause(ctx, time.Minute); err != nil {
		return err
	}
	r.harm("healed")
	r.apiWires[leader.Spec.Name].set(weather{})
	return nil
}

// hubCacheSlow has new leaders begin while what they know comes in slowly.
func hubCacheSlow(ctx context.Context, r *run) error {
	for _, replica := range r.fleet.Hub.Replicas {
		r.harm("%s has 100 ms and 64 kB a second to its API server", replica.Spec.Name)
		r.apiWires[replica.Spec.Name].set(weather{Latency: r.scaled(100 * time.Millisecond), Rate: 64 << 10})
	}
	for range 2 {
		if err := r.killLeader(ctx, "so that another fills its cache"); err != nil {
			return err
		}
		if err := r.pause(ctx, 30*time.Second); err != nil {
			return err
		}
	}
	return nil
}
