package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// restores puts the hub's etcd back to an earlier time: with so many leaders since
// then, and agents that start over meanwhile or not. Each has a session of every
// kind that a backup may be wrong about.
func restores() []scenario {
	var all []scenario
	for leaders := range 3 {
		for _, again := range []bool{false, true} {
			name := fmt.Sprintf("hub-restored-%d-leaders", leaders)
			if again {
				name += "-agents-anew"
			}
			all = append(all, scenario{
				name: name, size: 16, alone: true, ends: true, slack: watchBackoff,
				do: func(ctx context.Context, r *run) error { return hubRestored(ctx, r, leaders, again) },
			})
		}
	}
	return all
}

// snapshot names the copy of the hub's etcd.
const snapshot = "earlier"

// noticeable is how long orders take at most to be followed by a term that every
// agent has stored, in time of production.
const noticeable = 20 * time.Second

// paramsKnown is how long an API server that has just started may deny whatever a policy
// with parameters is about: it looks for their kind every 30 s.
const paramsKnown = 30*time.Second + allowance

// nowhere is a region that no member is in.
const nowhere = "nowhere"

// forgotten are sessions of which a backup of the hub says something else than is so
// when it is restored.
type forgotten struct {
	// kept is as it was. placed was pending at the time of the backup, moved was in
	// another member, and unknown not there: their desktops must go on.
	kept, placed, moved, unknown types.UID
	// deleted is in the backup only, and pending is so still.
	deleted, pending types.UID
	// desktops are the Pods of those that run.
	desktops map[types.UID][]types.UID
}

// hubRestored saves the hub's etcd, has sessions placed, moved, created and
// deleted, and restores it as docs/operators.md says: no hub runs meanwhile.
func hubRestored(ctx context.Context, r *run, leaders int, again bool) error {
	cp := r.fleet.Hub.ControlPlane
	f, err := r.inBackup(ctx)
	if err != nil {
		return err
	}
	r.harm("the hub's etcd is saved")
	if err := cp.SaveEtcd(ctx, snapshot); err != nil {
		return err
	}
	for range leaders {
		if err := r.killLeader(ctx, "so that its term is left behind"); err != nil {
			return err
		}
		if err := r.pause(ctx, 20*time.Second); err != nil {
			return err
		}
	}
	if err := r.sinceBackup(ctx, f); err != nil {
		return err
	}
	r.work.end()
	if err := r.pause(ctx, noticeable); err != nil {
		return err
	}
	r.watch.heard(func(c *checker, _ time.Time) { f.desktops = c.desktops(f.kept, f.placed, f.moved, f.unknown) })
	if err := r.restoreHub(ctx, cp, again); err != nil {
		return err
	}
	return r.afterRestore(ctx, f)
}

// inBackup has those sessions run, or wait, that the backup knows of.
func (r *run) inBackup(ctx context.Context) (f *forgotten, err error) {
	f = &forgotten{}
	first, other := r.fleet.Members[0], r.fleet.Members[1]
	for n, s := range []struct {
		uid *types.UID
		in  string
	}{
		{&f.kept, first.Spec.Region}, {&f.moved, first.Spec.Region}, {&f.deleted, other.Spec.Region}, {&f.placed, nowhere}, {&f.pending, nowhere},
	} {
		if *s.uid, err = r.markedIn(ctx, n, s.in); err != nil {
			return nil, err
		}
		if s.in == nowhere {
			continue
		}
		if err := r.await(ctx, "a session of the backup runs", runs(*s.uid)); err != nil {
			return nil, err
		}
	}
	return f, r.pause(ctx, 20*time.Second)
}

// sinceBackup makes the backup wrong.
func (r *run) sinceBackup(ctx context.Context, f *forgotten) (err error) {
	first, other := r.fleet.Members[0], r.fleet.Members[1]
	r.harm("sessions are placed, moved, created and deleted, of which the backup knows nothing")
	for _, uid := range []types.UID{f.placed, f.moved} {
		if err := r.sendTo(ctx, uid, other.Spec.Region); err != nil {
			return err
		}
	}
	// Only a member that the new leader hears of can report what is taken from it.
	heard, err := r.markedIn(ctx, 91, first.Spec.Region)
	if err != nil {
		return err
	}
	if err := r.await(ctx, "a session runs where another is taken away", runs(heard)); err != nil {
		return err
	}
	if err := r.takeAway(ctx, first, f.moved); err != nil {
		return err
	}
	if f.unknown, err = r.markedIn(ctx, 90, other.Spec.Region); err != nil {
		return err
	}
	if err := r.watch.hub.Delete(ctx, r.sessionCalled(f.deleted)); err != nil {
		return err
	}
	for what, seen := range map[string]func(*checker) bool{
		"a session that was pending runs":          runs(f.placed),
		"a session that moves runs where it is to": func(c *checker) bool { return runs(f.moved)(c) && c.sessions[f.moved].Cluster == other.Name },
		"a session that will be forgotten runs":    runs(f.unknown),
		"a session is deleted":                     func(c *checker) bool { return c.sessions[f.deleted].gone },
	} {
		if err := r.await(ctx, what, seen); err != nil {
			return err
		}
	}
	return nil
}

// markedIn creates a session beside the workload's, in a region.
func (r *run) markedIn(ctx context.Context, n int, region string) (types.UID, error) {
	s := r.work.newSession(n, 3)
	s.Name, s.Spec.Placement.RequiredRegions = fmt.Sprintf("%s-marked-%d", r.scenario.name, n), []string{region}
	s.Spec.Failover.Mode = []v1alpha1.FailoverMode{v1alpha1.FailoverRestart, v1alpha1.FailoverHold, v1alpha1.FailoverFence}[n%3]
	if err := poll(ctx, paramsKnown, func(ctx context.Context) error { return r.watch.hub.Create(ctx, s) }); err != nil {
		return "", fmt.Errorf("creating %s: %w", s.Name, err)
	}
	return s.UID, nil
}

// sessionCalled is a session that the checker knows, by name.
func (r *run) sessionCalled(uid types.UID) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{}
	r.watch.heard(func(c *checker, _ time.Time) {
		if k := c.sessions[uid]; k != nil {
			s.Namespace, s.Name = key(k.Name).Namespace, key(k.Name).Name
		}
	})
	return s
}

// sendTo lets a session into a region, and no other.
func (r *run) sendTo(ctx context.Context, uid types.UID, region string) error {
	return poll(ctx, paramsKnown, func(ctx context.Context) error {
		s := r.sessionCalled(uid)
		if err := r.watch.hub.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		before := s.DeepCopy()
		s.Spec.Placement.RequiredRegions = []string{region}
		return r.watch.hub.Patch(ctx, s, client.MergeFrom(before))
	})
}

// takeAway has a session rescheduled, by deleting its assignment by hand.
func (r *run) takeAway(ctx context.Context, m *harness.Member, uid types.UID) error {
	var held assignmentFact
	r.watch.heard(func(c *checker, _ time.Time) { held = c.held[m.Name][uid] })
	r.harm("assignment %s is deleted by hand", held.Name)
	_, err := m.ControlPlane.Kubectl(ctx, "delete", "vdia", "-n", namespace, key(held.Name).Name, "--wait=false")
	return err
}

// restoreHub stops the hub, puts its etcd back, and starts it again.
func (r *run) restoreHub(ctx context.Context, cp *harness.ControlPlane, again bool) error {
	for _, replica := range r.fleet.Hub.Replicas {
		r.supervisor.hold(replica.Process, true)
		if err := replica.Kill(); err != nil {
			return err
		}
	}
	r.harm("the hub is stopped and its etcd restored")
	if err := r.restore(ctx, cp); err != nil {
		return err
	}
	if again {
		for _, m := range r.fleet.Members {
			r.harm("kill -9 %s", m.Agent.Spec.Name)
			if err := m.Agent.Kill(); err != nil {
				return err
			}
		}
	}
	r.harm("the hub starts again")
	r.supervisor.releaseAll()
	return nil
}

// afterRestore waits until both sides agree: what ran goes on in the very Pods that
// it had, the hub has taken it over, and everything else is placed again.
func (r *run) afterRestore(ctx context.Context, f *forgotten) error {
	if err := r.sendTo(ctx, f.pending, r.fleet.Members[0].Spec.Region); err != nil {
		return err
	}
	for what, uid := range map[string]types.UID{
		"a session that the backup has as it is runs": f.kept, "a session placed since the backup runs": f.placed,
		"a session moved since the backup runs": f.moved, "a session deleted since the backup runs": f.deleted,
		"a session that was never placed runs": f.pending,
	} {
		if err := r.await(ctx, what, runs(uid)); err != nil {
			return err
		}
	}
	limit := r.scaled(agreeWithin) + allowance + r.scenario.slack
	if err := r.until(ctx, limit, (*sides).agreement); err != nil {
		return fmt.Errorf("promise 8: the sides do not agree: %w", err)
	}
	var now map[types.UID][]types.UID
	r.watch.heard(func(c *checker, _ time.Time) { now = c.desktops(f.kept, f.placed, f.moved, f.unknown) })
	for what, uid := range map[string]types.UID{"kept": f.kept, "placed": f.placed, "moved": f.moved, "unknown": f.unknown} {
		if len(f.desktops[uid]) != 1 || !slices.Equal(now[uid], f.desktops[uid]) {
			return fmt.Errorf("the session that was %s ran in Pods %v before the restore, and runs in %v", what, f.desktops[uid], now[uid])
		}
	}
	return nil
}

// desktops are the Pods of some sessions.
func (c *checker) desktops(of ...types.UID) map[types.UID][]types.UID {
	out := map[types.UID][]types.UID{}
	for _, p := range c.pods {
		if slices.Contains(of, p.Session) && !p.Ended {
			out[p.Session] = append(out[p.Session], p.UID)
		}
	}
	return out
}

// restore puts the copy back, and tells the checker what the hub has forgotten.
func (r *run) restore(ctx context.Context, cp *harness.ControlPlane) error {
	w := r.watch
	w.heard(func(*checker, time.Time) { w.ignore = true })
	w.hubCache()
	if err := cp.RestoreEtcd(ctx, snapshot); err != nil {
		return err
	}
	sides, err := r.sides(ctx)
	if err != nil {
		return fmt.Errorf("reading what was restored: %w", err)
	}
	holds := map[types.UID]sessionFact{}
	for i := range sides.sessions {
		holds[sides.sessions[i].UID] = *sessionOf(&sides.sessions[i])
	}
	lost := 0
	w.heard(func(c *checker, _ time.Time) {
		c.restored(holds)
		w.ignore = false
		for _, k := range c.sessions {
			if k.lost {
				lost++
			}
		}
	})
	r.harm("%d sessions are forgotten, %d are known", lost, len(holds))
	return w.watchHub(w.ctx, cp)
}
