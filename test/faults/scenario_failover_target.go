package faults

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// targets harm those who are to take a lost member's sessions.
func targets() []scenario {
	return []scenario{
		{name: "two-regions", do: twoRegions},
		{name: "target-lost", do: targetLost},
		{name: "target-fills-up", do: targetFillsUp},
	}
}

// twoRegions loses one member, and another when the first one's sessions have
// begun to run elsewhere: all end up in the third.
func twoRegions(ctx context.Context, r *run) error {
	members := r.shuffled()
	first, err := r.invite(ctx, members[0], oneHomed)
	if err != nil {
		return err
	}
	second, err := r.invite(ctx, members[1], oneHomed)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := r.powerOff(members[0]); err != nil {
		return err
	}
	if err := r.elsewhere(ctx, first.of(v1alpha1.FailoverRestart), since, unreachable+restartAfter); err != nil {
		return err
	}
	next := time.Now()
	if err := r.powerOff(members[1]); err != nil {
		return err
	}
	if err := r.moves(ctx, second, next); err != nil {
		return err
	}
	if err := r.moves(ctx, first, next); err != nil {
		return err
	}
	if err := r.allIn(members[2], append(first.of(v1alpha1.FailoverRestart), second.of(v1alpha1.FailoverRestart)...)); err != nil {
		return err
	}
	for _, m := range members[:2] {
		if err := r.powerOn(ctx, m); err != nil {
			return err
		}
	}
	return r.healed(ctx, append(first, second...))
}

// shuffled are the members in an order that the seed gives.
func (r *run) shuffled() []*harness.Member {
	members := append([]*harness.Member(nil), r.fleet.Members...)
	r.random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return members
}

// allIn: guests are placed in one member.
func (r *run) allIn(m *harness.Member, all guests) error {
	var err error
	r.watch.heard(func(c *checker, _ time.Time) {
		for _, g := range all {
			if k := c.sessions[g.uid]; k.Cluster != m.Name {
				err = fmt.Errorf("guest %s is in %q, and only %s is left", g.name, k.Cluster, m.Name)
			}
		}
	})
	return err
}

// targetLost loses the member to which the first session was sent, as it is sent.
func targetLost(ctx context.Context, r *run) error {
	m := r.member()
	all, err := r.invite(ctx, m, manyRestart)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := r.powerOff(m); err != nil {
		return err
	}
	restart := all.of(v1alpha1.FailoverRestart)
	to, err := r.firstMoves(ctx, restart, unreachable+restartAfter)
	if err != nil {
		return err
	}
	target := r.fleet.Member(to)
	next := time.Now()
	if err := r.powerOff(target); err != nil {
		return err
	}
	var third *harness.Member
	for _, other := range r.fleet.Members {
		if other != m && other != target {
			third = other
		}
	}
	// Wherever they were sent, they run in the third at last.
	limit := r.scaled(unreachable+restartAfter+regain) + 3*allowance
	err = r.awaitWithin(ctx, limit, func(c *checker) bool {
		for _, g := range restart {
			if k := c.sessions[g.uid]; k.Cluster != third.Name || !k.PodReady {
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("%s and %s are gone, and Restart guests do not run in %s: %w\n%s", m.Name, to, third.Name, err, r.whereabouts(ctx, restart))
	}
	r.harm("%d Restart guests run in %s, %.1fs after the second harm (policy: %s)", len(restart), third.Name, time.Since(next).Seconds(), r.scaled(unreachable+restartAfter))
	if err := r.moves(ctx, all, since); err != nil {
		return err
	}
	for _, back := range []*harness.Member{m, target} {
		if err := r.powerOn(ctx, back); err != nil {
			return err
		}
	}
	return r.healed(ctx, all)
}

// big is a desktop of which each node has room for two. Of them fillers run in each
// of two members, bigs in the third, which is lost: for no more than left of those is
// there room elsewhere, nor for less than least, whatever the workload's desktops
// reserve meanwhile. freed is for how many there is room later.
const (
	big     = "faults-big"
	cores   = "6"
	fillers = 2*nodesPerMember - 3
	bigs    = 2*nodesPerMember - 2
	left    = 6
	least   = 2
	freed   = 4
)

// targetFillsUp loses a member with more sessions than there is room for elsewhere.
// Some arrive, the others wait and say so, and follow as soon as there is room.
func targetFillsUp(ctx context.Context, r *run) error {
	if err := r.makeBig(ctx); err != nil {
		return err
	}
	members := r.shuffled()
	var inTheWay []*v1alpha1.VDISession
	for i, m := range members[1:] {
		some, err := r.fill(ctx, m, fillers, i)
		if err != nil {
			return err
		}
		inTheWay = append(inTheWay, some...)
	}
	var wishes []wish
	for range bigs {
		wishes = append(wishes, wish{mode: v1alpha1.FailoverRestart, template: big})
	}
	all, err := r.invite(ctx, members[0], wishes)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := r.powerOff(members[0]); err != nil {
		return err
	}
	if err := r.arrive(ctx, all, least, since); err != nil {
		return err
	}
	if err := r.pause(ctx, 30*time.Second); err != nil {
		return err
	}
	waiting := r.waiting(all)
	if len(waiting) < bigs-left {
		return fmt.Errorf("%d of %d guests wait, and there is room for %d", len(waiting), bigs, left)
	}
	if err := r.pending(ctx, waiting, "cpu"); err != nil {
		return err
	}
	r.harm("%d guests wait for room and say so; %d of those that are in the way are deleted", len(waiting), freed)
	for _, s := range inTheWay[:freed] {
		if err := client.IgnoreNotFound(r.watch.hub.Delete(ctx, s)); err != nil {
			return err
		}
	}
	if err := r.arrive(ctx, waiting, least, time.Now()); err != nil {
		return err
	}
	if err := r.powerOn(ctx, members[0]); err != nil {
		return err
	}
	return r.healed(ctx, all)
}

// waiting are the guests that are where they were.
func (r *run) waiting(all guests) guests {
	var waiting guests
	r.watch.heard(func(c *checker, _ time.Time) {
		for _, g := range all {
			if !g.movedTo(c) {
				waiting = append(waiting, g)
			}
		}
	})
	return waiting
}

// makeBig makes the template, and waits until every member can run it.
func (r *run) makeBig(ctx context.Context) error {
	t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: big}}
	t.Spec.Image, t.Spec.Port = "registry.example.com/desktop:1", 6901
	t.Spec.Resources.Default = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cores), corev1.ResourceMemory: resource.MustParse("64Mi")}
	t.Spec.Resources.Max = t.Spec.Resources.Default
	t.Spec.Timeout.Default, t.Spec.Timeout.Max = "8h", "12h"
	if err := client.IgnoreAlreadyExists(r.watch.hub.Create(ctx, t)); err != nil {
		return err
	}
	return r.available(ctx, big)
}

// fill takes room in a member with sessions that go nowhere else.
func (r *run) fill(ctx context.Context, m *harness.Member, n, group int) ([]*v1alpha1.VDISession, error) {
	if err := r.stable(ctx, m.Name); err != nil {
		return nil, err
	}
	var all []*v1alpha1.VDISession
	for i := range n {
		s := r.work.newSession(0, 3)
		s.Name = fmt.Sprintf("%s-filler-%d-%02d", r.scenario.name, group, i)
		s.Spec.Template, s.Spec.Placement.RequiredRegions = big, []string{m.Spec.Region}
		if err := poll(ctx, allowance, func(ctx context.Context) error { return r.watch.hub.Create(ctx, s) }); err != nil {
			return nil, fmt.Errorf("creating %s: %w", s.Name, err)
		}
		all = append(all, s)
	}
	return all, r.allRun(ctx, all)
}

// arrive waits until so many guests run elsewhere.
func (r *run) arrive(ctx context.Context, all guests, n int, since time.Time) error {
	arrived := 0
	err := r.awaitWithin(ctx, r.scaled(unreachable+restartAfter+regain)+2*allowance, func(c *checker) bool {
		arrived = 0
		for _, g := range all {
			if g.movedTo(c) && c.sessions[g.uid].PodReady {
				arrived++
			}
		}
		return arrived >= n
	})
	if err != nil {
		return fmt.Errorf("%d of %d guests run elsewhere, and there is room for %d: %w\n%s", arrived, len(all), n, err, r.whereabouts(ctx, all))
	}
	r.harm("%d of %d guests run elsewhere after %.1fs", arrived, len(all), time.Since(since).Seconds())
	return nil
}
