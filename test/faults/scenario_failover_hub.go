package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// lostHubs lose the hub, or have it seem so.
func lostHubs() []scenario {
	return []scenario{
		{name: "leader-lost", ends: true, do: leaderLost},
		{name: "all-lost", do: allLost},
		{name: "hub-cluster-left", do: hubClusterLeft},
	}
}

// leaderLost kills the leader when the first session was rescheduled. The next one
// gives the member a whole R before it goes on.
func leaderLost(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, manyRestart)
	if err != nil {
		return err
	}
	if err := r.powerOff(m); err != nil {
		return err
	}
	to, err := r.firstMoves(ctx, all.of(v1alpha1.FailoverRestart), unreachable+restartAfter)
	if err != nil {
		return err
	}
	if err := r.killLeader(ctx, "as the first Restart guest was placed in "+to); err != nil {
		return err
	}
	// The next leader gives members time of its own.
	if err := r.moves(ctx, all, time.Now()); err != nil {
		return err
	}
	if err := r.powerOn(ctx, m); err != nil {
		return err
	}
	return r.healed(ctx, all)
}

// allLost: when all members are gone, the hub is the one that is cut off. One of
// them has no power, to be sure, and gets it back when the others are reachable again.
func allLost(ctx context.Context, r *run) error {
	var all guests
	for _, m := range r.fleet.Members {
		some, err := r.invite(ctx, m, oneHomed)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	since := time.Now()
	off := r.fleet.Members[r.random.IntN(len(r.fleet.Members))]
	var cut guests
	for _, m := range r.fleet.Members {
		if m != off {
			r.weather(m.Name, cutOff, "cut off both ways")
		}
	}
	if err := r.powerOff(off); err != nil {
		return err
	}
	for _, g := range all {
		if g.at != off {
			cut = append(cut, g)
		}
	}
	if err := r.fencedOff(ctx, cut.of(v1alpha1.FailoverFence), since); err != nil {
		return err
	}
	if err := sleep(ctx, time.Until(since.Add(r.scaled(regain+restartAfter)))); err != nil {
		return err
	}
	if err := r.stayed(all); err != nil {
		return fmt.Errorf("with all members gone: %w", err)
	}
	rest := append(cut.of(v1alpha1.FailoverRestart), cut.of(v1alpha1.FailoverHold)...)
	if err := r.ranOn(rest, since); err != nil {
		return err
	}
	if err := r.pending(ctx, all.of(v1alpha1.FailoverRestart), "cut off"); err != nil {
		return err
	}
	return r.allReturn(ctx, off, cut)
}

// allReturn heals the network, and then gives a member its power back.
func (r *run) allReturn(ctx context.Context, off *harness.Member, cut guests) error {
	for _, m := range r.fleet.Members {
		if m != off {
			r.weather(m.Name, weather{}, "healed")
		}
	}
	// The pause ends with the first that is reachable. Power returns after that: whoever
	// is lost for as long as the others is given its full time again, or its sessions
	// would be placed elsewhere in the moment in which its desktops start.
	for _, m := range r.fleet.Members {
		if m == off {
			continue
		}
		if err := r.healthIs(ctx, m.Name, v1alpha1.ReasonUnreachable, false); err != nil {
			return err
		}
	}
	if err := r.powerOn(ctx, off); err != nil {
		return err
	}
	return r.settleIn(ctx, cut)
}

// hubClusterLeft: the hub's own cluster is a member with room. That it lives says
// nothing of the network, and nothing moves there when all others are gone.
func hubClusterLeft(ctx context.Context, r *run) error {
	cluster, err := r.fleet.Hub.ControlPlane.Client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return err
	}
	own, err := r.simulateCluster(ctx, "hub-cluster", string(cluster.UID))
	if err != nil {
		return err
	}
	if err := r.isHubCluster(ctx, own.name); err != nil {
		return err
	}
	var all guests
	for _, m := range r.fleet.Members {
		some, err := r.invite(ctx, m, oneHomed)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	since := time.Now()
	for _, m := range r.fleet.Members {
		r.weather(m.Name, cutOff, "cut off both ways")
	}
	if err := r.fencedOff(ctx, all.of(v1alpha1.FailoverFence), since); err != nil {
		return err
	}
	if err := sleep(ctx, time.Until(since.Add(r.scaled(regain+restartAfter)))); err != nil {
		return err
	}
	if err := r.stayed(all); err != nil {
		return fmt.Errorf("with all members gone but the hub's own cluster: %w", err)
	}
	for _, m := range r.fleet.Members {
		r.weather(m.Name, weather{}, "healed")
	}
	return r.settleIn(ctx, all)
}

// isHubCluster waits until the hub knows its own cluster.
func (r *run) isHubCluster(ctx context.Context, member string) error {
	return poll(ctx, r.scaled(time.Minute)+allowance, func(ctx context.Context) error {
		mc := &v1alpha1.MemberCluster{}
		if err := r.watch.hub.Get(ctx, key("/"+member), mc); err != nil {
			return err
		}
		if !mc.Status.HubCluster {
			return errors.New("the hub does not know that " + member + " is its own cluster")
		}
		return nil
	})
}
