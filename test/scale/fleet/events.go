package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// slowPlacement is how long a new session may wait for its placement before what it showed is printed.
const slowPlacement = 5 * time.Second

var errNoLeader = errors.New("no replica of the hub leads")

// edit changes the resources of a template, and waits until each member has reported it.
func (f *fleet) edit(ctx context.Context) error {
	t := &v1alpha1.VDITemplate{}
	if err := f.hub.Get(ctx, client.ObjectKey{Name: templateName(0)}, t); err != nil {
		return err
	}
	sets := f.templateSets.Load()
	t.Spec.Image += "-edited"
	if err := f.hub.Update(ctx, t); err != nil {
		return err
	}
	began := time.Now()
	for {
		if err := f.hub.Get(ctx, client.ObjectKeyFromObject(t), t); err != nil {
			return err
		}
		if t.Status.ObservedGeneration == t.Generation && int(t.Status.AvailableClusters) == len(f.members) && f.templateSets.Load()-sets >= int64(len(f.members)) {
			break
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return fmt.Errorf("%d members have the template: %w", t.Status.AvailableClusters, err)
		}
	}
	fmt.Printf("  available everywhere after %s\n", round(time.Since(began)))
	return nil
}

// takeover ends the leader, and waits until every member has renewed its lease with the next.
func (f *fleet) takeover(ctx context.Context) error {
	leader := f.Hub.Leader(ctx)
	if leader == nil {
		return errNoLeader
	}
	began := time.Now()
	if err := leader.Kill(); err != nil {
		return err
	}
	if err := f.awaitRenewals(ctx, began, len(f.members)); err != nil {
		return err
	}
	atMost(f, "until the next leader serves every member", round(time.Since(began)), wider(f, takeoverBound))
	if err := f.serves(ctx, "a session after the takeover"); err != nil {
		return err
	}
	if err := f.memory(ctx); err != nil {
		return err
	}
	if err := leader.Start(); err != nil {
		return err
	}
	return leader.WaitReady(ctx)
}

// reconnect drops all connections at once.
func (f *fleet) reconnect(ctx context.Context) error {
	began := time.Now()
	for _, network := range f.networks {
		if err := network.DropConnections(); err != nil {
			return err
		}
	}
	if err := f.awaitRenewals(ctx, began, len(f.members)); err != nil {
		return err
	}
	fmt.Printf("  all members are served after %s\n", round(time.Since(began)))
	return f.serves(ctx, "a session after that")
}

// awaitRenewals waits until that many members have renewed their leases since then.
func (f *fleet) awaitRenewals(ctx context.Context, since time.Time, count int) error {
	for f.renewals.since(since) < count {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d members have renewed: %w", f.renewals.since(since), count, err)
		}
	}
	return nil
}

// serves creates a session and waits until it runs, which has a bound. If it was placed late, it prints what
// its status was until then.
func (f *fleet) serves(ctx context.Context, what string) error {
	if err := queues(ctx, f.Hub); err != nil {
		return err
	}
	var placed time.Duration
	shown := map[string]time.Duration{}
	s := f.session("probe", 0)
	s.Name, s.GenerateName = "", "probe-"
	began := time.Now()
	if err := f.hub.Create(ctx, s); err != nil {
		return err
	}
	created := time.Since(began)
	for last := time.Now(); !running(s); last = time.Now() {
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%s is %s: %w", what, s.Status.Phase, err)
		}
		if err := f.hub.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		switch {
		case s.Status.Placement == nil:
			shown[fmt.Sprintf("%s %q", s.Status.Phase, s.Status.Message)] += time.Since(last)
		case placed == 0:
			placed = time.Since(began)
		}
	}
	runs := time.Since(began)
	fmt.Printf("  %s is placed after %s; 1 to 3 s more are the simulated start's\n", what, round(placed))
	atMost(f, "until it runs", round(runs), wider(f, startBound))
	if placed > slowPlacement {
		fmt.Printf("    it was created after %s; then it showed:\n", round(created))
		for status, d := range shown {
			fmt.Printf("    %s for %s\n", status, round(d))
		}
	}
	return f.hub.Delete(ctx, s)
}

// queues prints how many objects the leader has still to reconcile.
func queues(ctx context.Context, hub *harness.Hub) error {
	values, err := leaderMetrics(ctx, hub)
	if err != nil {
		return err
	}
	for _, controller := range []string{"vdisession", "assignment", "membercluster", "userrole"} {
		fmt.Printf("  the leader has still to reconcile: %.0f of %s\n", values.Gauge("workqueue_depth", "controller", controller), controller)
	}
	return nil
}

// lose ends the agents of a tenth of the members, waits until all their sessions run elsewhere, and
// starts the agents again.
func (f *fleet) lose(ctx context.Context) error {
	lost, ended := map[string]bool{}, f.members[:max(1, len(f.members)/10)]
	for _, m := range ended {
		lost[m.name] = true
	}
	w := f.watch("", func(s *v1alpha1.VDISession) bool {
		return running(s) && s.DeletionTimestamp == nil && s.Status.Placement != nil && !lost[s.Status.Placement.ClusterName]
	})
	all, away := map[types.UID]bool{}, map[types.UID]bool{}
	// Before the loss: the list of 100,000 takes minutes while the hub reschedules sessions.
	from, err := f.eachSession(ctx, "", func(s *v1alpha1.VDISession) {
		w.observe(s)
		if s.Status.Placement != nil && s.DeletionTimestamp == nil {
			all[s.UID] = true
			if lost[s.Status.Placement.ClusterName] {
				away[s.UID] = true
			}
		}
	})
	if err != nil {
		return err
	}
	fmt.Printf("  %d members with %d sessions\n", len(lost), len(away))
	began := time.Now()
	for _, m := range ended {
		m.halt()
	}
	if err := w.follow(ctx, from, len(all)); err != nil {
		return err
	}
	fmt.Printf("  all run elsewhere after %s\n", round(time.Since(began)))
	for _, m := range ended {
		m.wait()
		m.start(ctx)
	}
	began = time.Now()
	if err := f.awaitReady(ctx); err != nil {
		return err
	}
	fmt.Printf("  all members are Ready again after %s\n", round(time.Since(began)))
	return nil
}
