package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/faults/probe"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// lostHubs returns the scenarios in which the hub is lost, or seems to be.
func lostHubs() []runner.Scenario {
	return []runner.Scenario{
		{Name: "leader-lost", EndsProcesses: true, Do: leaderLost},
		{Name: "all-lost", Do: allLost},
		{Name: "hub-cluster-left", Do: hubClusterLeft},
	}
}

// leaderLost kills the leader after the first session was rescheduled. The next leader grants the
// member a whole R before it continues.
func leaderLost(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, manyRestart)
	if err != nil {
		return err
	}
	if err := runner.PowerOff(r, m); err != nil {
		return err
	}
	to, err := probe.AwaitFirstMove(ctx, r, all.OfMode(v1alpha1.FailoverRestart), stage.Unreachable+stage.RestartAfter)
	if err != nil {
		return err
	}
	if err := r.KillLeader(ctx, "as the first Restart probe was placed in "+to); err != nil {
		return err
	}
	// The next leader grants members their full time.
	if err := probe.AwaitFailover(ctx, r, all, time.Now()); err != nil {
		return err
	}
	if err := runner.PowerOn(ctx, r, m); err != nil {
		return err
	}
	return probe.AwaitOldStopped(ctx, r, all)
}

// allLost cuts off all members: then the hub itself counts as cut off, and nothing moves. One
// member also loses its power, and gets it back when the others are reachable again.
func allLost(ctx context.Context, r *runner.Run) error {
	var all probe.Probes
	for _, m := range r.Fleet.Members {
		some, err := probe.Create(ctx, r, m, probe.Standard)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	since := time.Now()
	off := r.Fleet.Members[r.Random.IntN(len(r.Fleet.Members))]
	var cut probe.Probes
	for _, m := range r.Fleet.Members {
		if m != off {
			r.SetNetwork(m.Name, netem.CutOff, "cut off both ways")
		}
	}
	if err := runner.PowerOff(r, off); err != nil {
		return err
	}
	for _, p := range all {
		if p.At != off {
			cut = append(cut, p)
		}
	}
	if err := probe.AwaitLeaseStop(ctx, r, cut.OfMode(v1alpha1.FailoverFence), since); err != nil {
		return err
	}
	if err := stage.Sleep(ctx, time.Until(since.Add(r.Scaled(stage.PlaceElsewhereAfter+stage.RestartAfter)))); err != nil {
		return err
	}
	if err := probe.CheckUnmoved(r, all); err != nil {
		return fmt.Errorf("with all members gone: %w", err)
	}
	others := append(cut.OfMode(v1alpha1.FailoverRestart), cut.OfMode(v1alpha1.FailoverHold)...)
	if err := probe.CheckKeptRunning(r, others, since); err != nil {
		return err
	}
	if err := probe.AwaitPending(ctx, r, all.OfMode(v1alpha1.FailoverRestart), "cut off"); err != nil {
		return err
	}
	return allReturn(ctx, r, off, cut)
}

// allReturn restores the network, and then a member's power.
func allReturn(ctx context.Context, r *runner.Run, off *harness.Member, cut probe.Probes) error {
	for _, m := range r.Fleet.Members {
		if m != off {
			r.SetNetwork(m.Name, netem.Conditions{}, "restored")
		}
	}
	// Failover resumes with the first member that is reachable. Power returns after that: a member
	// that was lost as long as the others gets its full time again, since its sessions would
	// otherwise be placed elsewhere just as its desktops start.
	for _, m := range r.Fleet.Members {
		if m == off {
			continue
		}
		if err := runner.AwaitReadyReason(ctx, r, m.Name, v1alpha1.ReasonUnreachable, false); err != nil {
			return err
		}
	}
	if err := runner.PowerOn(ctx, r, off); err != nil {
		return err
	}
	return probe.AwaitRunning(ctx, r, cut)
}

// hubClusterLeft adds the hub's own cluster as a member with capacity. Its connection proves
// nothing about the network, and nothing moves there when all others are cut off.
func hubClusterLeft(ctx context.Context, r *runner.Run) error {
	cluster, err := r.Fleet.Hub.ControlPlane.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return err
	}
	own, err := runner.SimulateCluster(ctx, r, "hub-cluster", string(cluster.UID))
	if err != nil {
		return err
	}
	if err := isHubCluster(ctx, r, own.Name); err != nil {
		return err
	}
	var all probe.Probes
	for _, m := range r.Fleet.Members {
		some, err := probe.Create(ctx, r, m, probe.Standard)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	since := time.Now()
	for _, m := range r.Fleet.Members {
		r.SetNetwork(m.Name, netem.CutOff, "cut off both ways")
	}
	if err := probe.AwaitLeaseStop(ctx, r, all.OfMode(v1alpha1.FailoverFence), since); err != nil {
		return err
	}
	if err := stage.Sleep(ctx, time.Until(since.Add(r.Scaled(stage.PlaceElsewhereAfter+stage.RestartAfter)))); err != nil {
		return err
	}
	if err := probe.CheckUnmoved(r, all); err != nil {
		return fmt.Errorf("with all members gone but the hub's own cluster: %w", err)
	}
	for _, m := range r.Fleet.Members {
		r.SetNetwork(m.Name, netem.Conditions{}, "restored")
	}
	return probe.AwaitRunning(ctx, r, all)
}

// isHubCluster waits until the hub recognizes its own cluster.
func isHubCluster(ctx context.Context, r *runner.Run, member string) error {
	return stage.Poll(ctx, r.Scaled(time.Minute)+stage.Allowance, func(ctx context.Context) error {
		mc := &v1alpha1.MemberCluster{}
		if err := r.Watch.Hub.Get(ctx, watch.Key("/"+member), mc); err != nil {
			return err
		}
		if !mc.Status.HubCluster {
			return errors.New("the hub does not recognize that " + member + " is its own cluster")
		}
		return nil
	})
}
