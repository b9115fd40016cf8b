package faults

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// networks breaks what is between the members and the hub.
func networks() []scenario {
	cut := func(w weather, what string) func(context.Context, *run) error {
		return func(ctx context.Context, r *run) error { return partition(ctx, r, w, what) }
	}
	return []scenario{
		{name: "partition", short: true, do: cut(weather{CutToHub: true, CutToAgent: true}, "cut off both ways, without a reset")},
		{name: "partition-to-hub", do: cut(weather{CutToHub: true}, "nothing arrives at the hub")},
		{name: "partition-to-agent", do: cut(weather{CutToAgent: true}, "nothing arrives at the agent")},
		{name: "half-open", do: halfOpen},
		{name: "thin-line", do: thinLine},
		{name: "flap", do: flap},
		{name: "resets", do: resets},
		{name: "recreate-in-partition", do: recreateInPartition},
	}
}

// partition cuts a member off for so long that it is Unreachable.
func partition(ctx context.Context, r *run, w weather, what string) error {
	m := r.member()
	r.weather(m.Name, w, what)
	if err := r.healthIs(ctx, m.Name, v1alpha1.ReasonUnreachable, true); err != nil {
		return err
	}
	if err := r.pause(ctx, 30*time.Second); err != nil {
		return err
	}
	r.weather(m.Name, weather{}, "healed")
	return nil
}

// halfOpen has a router forget every connection: no end is told.
func halfOpen(ctx context.Context, r *run) error {
	for range rounds {
		m := r.member()
		r.harm("%s: %d connections forgotten, no reset", m.Name, r.wires[m.Name].forget())
		if err := r.moment(ctx, 40*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// thinLine is 64 kbit/s with 500 ms and 5% loss to every member. A fleet whose
// time runs faster has a line that is faster by as much.
func thinLine(ctx context.Context, r *run) error {
	thin := weather{Latency: r.scaled(500 * time.Millisecond), Rate: int(8000 / r.factor), Loss: 0.05}
	for _, m := range r.fleet.Members {
		r.weather(m.Name, thin, "64 kbit/s with 500 ms and 5% loss as retransmission stalls, scaled")
	}
	return r.pause(ctx, 3*time.Minute)
}

// flap cuts and heals a member every 3 s for 5 minutes.
func flap(ctx context.Context, r *run) error {
	m := r.member()
	r.harm("%s: flaps every %s for %s", m.Name, r.scaled(3*time.Second), r.scaled(5*time.Minute))
	r.away(m.Name)
	for range 50 {
		for _, w := range []weather{{CutToHub: true, CutToAgent: true}, {}} {
			r.wires[m.Name].set(w)
			if err := r.pause(ctx, 3*time.Second); err != nil {
				return err
			}
		}
	}
	return nil
}

// resets ends connections at random.
func resets(ctx context.Context, r *run) error {
	for range 20 {
		m := r.member()
		r.harm("%s: connections reset", m.Name)
		r.wires[m.Name].reset()
		if err := r.moment(ctx, 10*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// recreateInPartition deletes and makes again what a member holds that is cut
// off: the old and the new of one name never meet.
func recreateInPartition(ctx context.Context, r *run) error {
	m := r.member()
	if err := r.pause(ctx, 20*time.Second); err != nil {
		return err
	}
	r.weather(m.Name, weather{CutToHub: true, CutToAgent: true}, "cut off both ways")
	sides, err := r.sides(ctx)
	if err != nil {
		return err
	}
	n := 0
	for i := range sides.sessions {
		s := &sides.sessions[i]
		if p := s.Status.Placement; p == nil || p.ClusterName != m.Name {
			continue
		}
		if err := client.IgnoreNotFound(r.watch.hub.Delete(ctx, s)); err != nil {
			return err
		}
		n++
		again := s.DeepCopy()
		again.ObjectMeta = newMeta(s.Name)
		r.work.done.Go(func() { recreate(ctx, r, again) })
	}
	r.harm("%d sessions of %s deleted, to be made again under their names", n, m.Name)
	if err := r.healthIs(ctx, m.Name, v1alpha1.ReasonUnreachable, true); err != nil {
		return err
	}
	if err := r.moment(ctx, 30*time.Second); err != nil {
		return err
	}
	r.weather(m.Name, weather{}, "healed")
	return nil
}

// recreate tries until the name is free. The workload may be faster.
func recreate(ctx context.Context, r *run, s *v1alpha1.VDISession) {
	_ = poll(ctx, r.scaled(agreeWithin)+allowance, func(ctx context.Context) error {
		again := s.DeepCopy()
		again.Status = v1alpha1.SessionStatus{}
		err := r.watch.hub.Create(ctx, again)
		if client.IgnoreAlreadyExists(err) == nil && err != nil {
			current := &v1alpha1.VDISession{}
			if e := r.watch.hub.Get(ctx, client.ObjectKeyFromObject(s), current); e == nil && current.DeletionTimestamp == nil {
				return nil // the workload has made it
			}
		}
		return err
	})
}
