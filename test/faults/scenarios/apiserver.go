package scenarios

import (
	"context"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// apiServers returns the scenarios in which an API server is lost.
func apiServers() []runner.Scenario {
	return []runner.Scenario{
		{Name: "hub-api-down", Slack: stage.WatchBackoff, EndsProcesses: true, Do: func(ctx context.Context, r *runner.Run) error {
			return apiDown(ctx, r, r.Fleet.Hub.ControlPlane)
		}},
		{Name: "member-api-down", Slack: stage.WatchBackoff, Do: func(ctx context.Context, r *runner.Run) error {
			return apiDown(ctx, r, r.RandomMember().ControlPlane)
		}},
		{Name: "member-etcd-stop", Slack: stage.WatchBackoff, Do: func(ctx context.Context, r *runner.Run) error {
			return etcdFrozen(ctx, r, r.RandomMember().ControlPlane)
		}},
		{Name: "hub-cut-from-api", Slack: stage.WatchBackoff, EndsProcesses: true, Do: hubCutFromAPI},
		{Name: "hub-cache-slow", Slack: stage.WatchBackoff, EndsProcesses: true, Do: hubCacheSlow},
	}
}

// apiDown kills an API server and leaves it down for a minute.
func apiDown(ctx context.Context, r *runner.Run, cp *harness.ControlPlane) error {
	if err := r.PauseRandomly(ctx, 10*time.Second); err != nil {
		return err
	}
	r.Record("kill -9 %s", cp.APIServer.Spec.Name)
	if err := cp.APIServer.Kill(); err != nil {
		return err
	}
	if err := r.Pause(ctx, time.Minute); err != nil {
		return err
	}
	r.Record("%s starts again", cp.APIServer.Spec.Name)
	return stage.RestartAfterOutage(ctx, cp)
}

// etcdFrozen freezes etcd: its API server neither responds nor refuses connections.
func etcdFrozen(ctx context.Context, r *runner.Run, cp *harness.ControlPlane) error {
	r.Record("SIGSTOP %s for %s", cp.Etcd.Spec.Name, r.Scaled(30*time.Second))
	if err := cp.Etcd.Pause(); err != nil {
		return err
	}
	if err := r.Pause(ctx, 30*time.Second); err != nil {
		return err
	}
	r.Record("SIGCONT %s", cp.Etcd.Spec.Name)
	return cp.Etcd.Resume()
}

// hubCutFromAPI cuts the leader off from its API server for longer than its leader lease lasts,
// while its agents stay connected.
func hubCutFromAPI(ctx context.Context, r *runner.Run) error {
	leader, err := r.Leader(ctx)
	if err != nil {
		return err
	}
	r.Record("%s (leader) is cut off from its API server, without a reset", leader.Spec.Name)
	r.APILinks[leader.Spec.Name].Set(netem.Conditions{CutToHub: true, CutToAgent: true})
	if err := r.Pause(ctx, time.Minute); err != nil {
		return err
	}
	r.Record("restored")
	r.APILinks[leader.Spec.Name].Set(netem.Conditions{})
	return nil
}

// hubCacheSlow starts new leaders whose caches fill slowly.
func hubCacheSlow(ctx context.Context, r *runner.Run) error {
	for _, replica := range r.Fleet.Hub.Replicas {
		r.Record("%s has 100 ms and 64 kB a second to its API server", replica.Spec.Name)
		r.APILinks[replica.Spec.Name].Set(netem.Conditions{Latency: r.Scaled(100 * time.Millisecond), Rate: 64 << 10})
	}
	for range 2 {
		if err := r.KillLeader(ctx, "so that another fills its cache"); err != nil {
			return err
		}
		if err := r.Pause(ctx, 30*time.Second); err != nil {
			return err
		}
	}
	return nil
}
