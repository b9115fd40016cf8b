package scenarios

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
)

// networks returns the scenarios that break the network between members and hub.
func networks() []runner.Scenario {
	cut := func(w netem.Conditions, what string) func(context.Context, *runner.Run) error {
		return func(ctx context.Context, r *runner.Run) error { return partition(ctx, r, w, what) }
	}
	return []runner.Scenario{
		{Name: "partition", Short: true, Do: cut(netem.Conditions{CutToHub: true, CutToAgent: true}, "cut off both ways, without a reset")},
		{Name: "partition-to-hub", Do: cut(netem.Conditions{CutToHub: true}, "nothing arrives at the hub")},
		{Name: "partition-to-agent", Do: cut(netem.Conditions{CutToAgent: true}, "nothing arrives at the agent")},
		{Name: "half-open", Do: halfOpen},
		{Name: "low-bandwidth", Do: lowBandwidth},
		{Name: "flap", Do: flap},
		{Name: "resets", Do: resets},
		{Name: "recreate-in-partition", Do: recreateInPartition},
	}
}

// partition cuts a member off until it is Unreachable.
func partition(ctx context.Context, r *runner.Run, w netem.Conditions, what string) error {
	m := r.RandomMember()
	r.SetNetwork(m.Name, w, what)
	if err := runner.AwaitReadyReason(ctx, r, m.Name, v1alpha1.ReasonUnreachable, true); err != nil {
		return err
	}
	if err := r.Pause(ctx, 30*time.Second); err != nil {
		return err
	}
	r.SetNetwork(m.Name, netem.Conditions{}, "restored")
	return nil
}

// halfOpen drops every connection silently: neither end is notified.
func halfOpen(ctx context.Context, r *runner.Run) error {
	for range runner.Rounds {
		m := r.RandomMember()
		r.Record("%s: %d connections dropped, no reset", m.Name, r.Links[m.Name].DropSilently())
		if err := r.PauseRandomly(ctx, 40*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// lowBandwidth limits every member to 64 kbit/s with 500 ms and 5% loss. Rate and latency scale with
// the fleet's time.
func lowBandwidth(ctx context.Context, r *runner.Run) error {
	thin := netem.Conditions{Latency: r.Scaled(500 * time.Millisecond), Rate: int(8000 / r.Factor), Loss: 0.05}
	for _, m := range r.Fleet.Members {
		r.SetNetwork(m.Name, thin, "64 kbit/s with 500 ms and 5% loss as retransmission stalls, scaled")
	}
	return r.Pause(ctx, 3*time.Minute)
}

// flap disconnects and reconnects a member every 3 s for 5 minutes.
func flap(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	r.Record("%s: flaps every %s for %s", m.Name, r.Scaled(3*time.Second), r.Scaled(5*time.Minute))
	r.RecordOutage(m.Name)
	for range 50 {
		for _, w := range []netem.Conditions{{CutToHub: true, CutToAgent: true}, {}} {
			r.Links[m.Name].Set(w)
			if err := r.Pause(ctx, 3*time.Second); err != nil {
				return err
			}
		}
	}
	return nil
}

// resets ends connections at random.
func resets(ctx context.Context, r *runner.Run) error {
	for range 20 {
		m := r.RandomMember()
		r.Record("%s: connections reset", m.Name)
		r.Links[m.Name].Reset()
		if err := r.PauseRandomly(ctx, 10*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// recreateInPartition deletes and recreates the sessions of a member that is cut off. The old and
// the new session of one name must not be confused.
func recreateInPartition(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	if err := r.Pause(ctx, 20*time.Second); err != nil {
		return err
	}
	r.SetNetwork(m.Name, netem.Conditions{CutToHub: true, CutToAgent: true}, "cut off both ways")
	sides, err := r.Snapshot(ctx)
	if err != nil {
		return err
	}
	n := 0
	for i := range sides.Sessions {
		s := &sides.Sessions[i]
		if p := s.Status.Placement; p == nil || p.ClusterName != m.Name {
			continue
		}
		if err := client.IgnoreNotFound(r.Watch.Hub.Delete(ctx, s)); err != nil {
			return err
		}
		n++
		again := s.DeepCopy()
		again.ObjectMeta = workload.Meta(s.Name)
		r.Workload.Go(func() { recreate(ctx, r, again) })
	}
	r.Record("%d sessions of %s deleted, to be made again under their names", n, m.Name)
	if err := runner.AwaitReadyReason(ctx, r, m.Name, v1alpha1.ReasonUnreachable, true); err != nil {
		return err
	}
	if err := r.PauseRandomly(ctx, 30*time.Second); err != nil {
		return err
	}
	r.SetNetwork(m.Name, netem.Conditions{}, "restored")
	return nil
}

// recreate creates a session as soon as its name is free, unless the workload does so first.
func recreate(ctx context.Context, r *runner.Run, s *v1alpha1.VDISession) {
	_ = stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+stage.Allowance, func(ctx context.Context) error {
		again := s.DeepCopy()
		again.Status = v1alpha1.SessionStatus{}
		err := r.Watch.Hub.Create(ctx, again)
		if client.IgnoreAlreadyExists(err) == nil && err != nil {
			current := &v1alpha1.VDISession{}
			if e := r.Watch.Hub.Get(ctx, client.ObjectKeyFromObject(s), current); e == nil && current.DeletionTimestamp == nil {
				return nil // the workload has created it
			}
		}
		return err
	})
}
