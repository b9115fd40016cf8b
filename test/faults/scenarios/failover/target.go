package failover

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/probe"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// targets returns the scenarios that break the members that are to take a lost member's sessions.
func targets() []runner.Scenario {
	return []runner.Scenario{
		{Name: "two-regions", Do: twoRegions},
		{Name: "target-lost", Do: targetLost},
		{Name: "target-fills-up", Do: targetFillsUp},
	}
}

// twoRegions loses one member, and another when the first one's sessions have
// begun to run elsewhere: all end up in the third.
func twoRegions(ctx context.Context, r *runner.Run) error {
	members := runner.ShuffledMembers(r)
	first, err := probe.Create(ctx, r, members[0], probe.Standard)
	if err != nil {
		return err
	}
	second, err := probe.Create(ctx, r, members[1], probe.Standard)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := runner.PowerOff(r, members[0]); err != nil {
		return err
	}
	if err := probe.AwaitElsewhere(ctx, r, first.OfMode(v1alpha1.FailoverRestart), since, stage.Unreachable+stage.RestartAfter); err != nil {
		return err
	}
	next := time.Now()
	if err := runner.PowerOff(r, members[1]); err != nil {
		return err
	}
	if err := probe.AwaitFailover(ctx, r, second, next); err != nil {
		return err
	}
	if err := probe.AwaitFailover(ctx, r, first, next); err != nil {
		return err
	}
	if err := probe.CheckAllIn(r, members[2], append(first.OfMode(v1alpha1.FailoverRestart), second.OfMode(v1alpha1.FailoverRestart)...)); err != nil {
		return err
	}
	for _, m := range members[:2] {
		if err := runner.PowerOn(ctx, r, m); err != nil {
			return err
		}
	}
	return probe.AwaitOldStopped(ctx, r, append(first, second...))
}

// targetLost loses the member in which the first session was placed, as it is placed.
func targetLost(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	all, err := probe.Create(ctx, r, m, manyRestart)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := runner.PowerOff(r, m); err != nil {
		return err
	}
	restart := all.OfMode(v1alpha1.FailoverRestart)
	to, err := probe.AwaitFirstMove(ctx, r, restart, stage.Unreachable+stage.RestartAfter)
	if err != nil {
		return err
	}
	target := r.Fleet.Member(to)
	next := time.Now()
	if err := runner.PowerOff(r, target); err != nil {
		return err
	}
	var third *harness.Member
	for _, other := range r.Fleet.Members {
		if other != m && other != target {
			third = other
		}
	}
	// Wherever they were placed in between, they run in the third member.
	limit := r.Scaled(stage.Unreachable+stage.RestartAfter+stage.PlaceElsewhereAfter) + 3*stage.Allowance
	err = r.AwaitWithin(ctx, limit, func(c *checker.Checker) bool {
		for _, p := range restart {
			if k := c.Session(p.UID); k.Cluster != third.Name || !k.PodReady {
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("%s and %s are gone, and Restart probes do not run in %s: %w\n%s", m.Name, to, third.Name, err, probe.Describe(ctx, r, restart))
	}
	r.Record("%d Restart probes run in %s, %.1fs after the second fault (policy: %s)", len(restart), third.Name, time.Since(next).Seconds(), r.Scaled(stage.Unreachable+stage.RestartAfter))
	if err := probe.AwaitFailover(ctx, r, all, since); err != nil {
		return err
	}
	for _, back := range []*harness.Member{m, target} {
		if err := runner.PowerOn(ctx, r, back); err != nil {
			return err
		}
	}
	return probe.AwaitOldStopped(ctx, r, all)
}

// big is a template with capacity for two desktops on each node. fillers of them run in each of
// two members, and bigs in the third, which is lost. The two have capacity for at least least and
// at most left of those, whatever the workload's desktops reserve meanwhile; freed is how many
// fillers are deleted later.
const (
	big     = "faults-big"
	cores   = "6"
	fillers = 2*stage.NodesPerMember - 3
	bigs    = 2*stage.NodesPerMember - 2
	left    = 6
	least   = 2
	freed   = 4
)

// targetFillsUp loses a member with more sessions than there is capacity for elsewhere. Some are
// placed; the others are pending with the reason, and are placed as soon as there is capacity.
func targetFillsUp(ctx context.Context, r *runner.Run) error {
	if err := createBigTemplate(ctx, r); err != nil {
		return err
	}
	members := runner.ShuffledMembers(r)
	var fillerSessions []*v1alpha1.VDISession
	for i, m := range members[1:] {
		some, err := fillMember(ctx, r, m, fillers, i)
		if err != nil {
			return err
		}
		fillerSessions = append(fillerSessions, some...)
	}
	var requests []probe.Request
	for range bigs {
		requests = append(requests, probe.Request{Mode: v1alpha1.FailoverRestart, Template: big})
	}
	all, err := probe.Create(ctx, r, members[0], requests)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := runner.PowerOff(r, members[0]); err != nil {
		return err
	}
	if err := probe.AwaitSome(ctx, r, all, least, since); err != nil {
		return err
	}
	if err := r.Pause(ctx, 30*time.Second); err != nil {
		return err
	}
	waiting := probe.Unmoved(r, all)
	if len(waiting) < bigs-left {
		return fmt.Errorf("%d of %d probes wait, and there is capacity for %d", len(waiting), bigs, left)
	}
	if err := probe.AwaitPending(ctx, r, waiting, "cpu"); err != nil {
		return err
	}
	r.Record("%d probes wait for capacity and show that; %d of those that are in the way are deleted", len(waiting), freed)
	for _, s := range fillerSessions[:freed] {
		if err := client.IgnoreNotFound(r.Watch.Hub.Delete(ctx, s)); err != nil {
			return err
		}
	}
	if err := probe.AwaitSome(ctx, r, waiting, least, time.Now()); err != nil {
		return err
	}
	if err := runner.PowerOn(ctx, r, members[0]); err != nil {
		return err
	}
	return probe.AwaitOldStopped(ctx, r, all)
}

// createBigTemplate creates the template, and waits until every member can run it.
func createBigTemplate(ctx context.Context, r *runner.Run) error {
	t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: big}}
	t.Spec.Image, t.Spec.Port = "registry.example.com/desktop:1", 6901
	t.Spec.Resources.Default = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cores), corev1.ResourceMemory: resource.MustParse("64Mi")}
	t.Spec.Resources.Max = t.Spec.Resources.Default
	t.Spec.Timeout.Default, t.Spec.Timeout.Max = "8h", "12h"
	if err := client.IgnoreAlreadyExists(r.Watch.Hub.Create(ctx, t)); err != nil {
		return err
	}
	return r.AwaitTemplates(ctx, big)
}

// fillMember uses capacity of a member for sessions that may run nowhere else.
func fillMember(ctx context.Context, r *runner.Run, m *harness.Member, n, group int) ([]*v1alpha1.VDISession, error) {
	if err := runner.AwaitStable(ctx, r, m.Name); err != nil {
		return nil, err
	}
	var all []*v1alpha1.VDISession
	for i := range n {
		s := workload.NewSession(fmt.Sprintf("%s-filler-%d-%02d", r.Scenario.Name, group, i), 3)
		s.Spec.Template, s.Spec.Placement.RequiredRegions = big, []string{m.Spec.Region}
		if err := stage.Poll(ctx, stage.Allowance, func(ctx context.Context) error { return r.Watch.Hub.Create(ctx, s) }); err != nil {
			return nil, fmt.Errorf("creating %s: %w", s.Name, err)
		}
		all = append(all, s)
	}
	return all, runner.AwaitAllRunning(ctx, r, all)
}
