package checker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// AssignmentDeleted checks that the hub released an assignment that a member no longer holds: G4.
func (c *Checker) AssignmentDeleted(now time.Time, f AssignmentState) {
	c.record(now, f.Session, f.Cluster+" holds no more", f)
	if before, held := c.held[f.Cluster][f.Session]; held {
		f.Epoch = max(f.Epoch, before.Epoch)
	}
	delete(c.held[f.Cluster], f.Session)
	if c.interrupted[f.Cluster] {
		c.ready[placement{f.Session, f.Epoch}] = true
	}
	release := newReleaseCheck(c, f.Session, f.Cluster, f.Epoch)
	c.suspect(now, 4, fmt.Sprintf("assignment/%s/%s/%d", f.Cluster, f.Session, f.Epoch), &Suspicion{
		about: f.Session, watches: []string{Hub}, wait: WatchLag,
		text:    fmt.Sprintf("assignment %s: epoch %d is gone from %s, and the hub has no reason for it", f.Name, f.Epoch, f.Cluster),
		prepare: release.refresh,
		unexplained: func() bool {
			k := c.sessions[f.Session]
			return k != nil && !k.released(f.Cluster, f.Epoch)
		},
		Confirm: release.notReleased,
	})
}

// releaseCheck reads from the hub's API server whether it released an epoch of a member. The hub's watch
// may be late by more than WatchLag: while an API server starts it forbids every request, and an
// informer then waits for half a minute.
type releaseCheck struct {
	c       *Checker
	session types.UID
	cluster string
	epoch   int64
	// lost means that the hub was restored from a time before the session: that it lacks the
	// session proves nothing.
	lost bool
}

func newReleaseCheck(c *Checker, session types.UID, cluster string, epoch int64) *releaseCheck {
	return &releaseCheck{c: c, session: session, cluster: cluster, epoch: epoch}
}

// refresh updates lost from the checker, which must be locked.
func (w *releaseCheck) refresh() {
	k := w.c.sessions[w.session]
	w.lost = k == nil || k.Lost
}

// notReleased reports whether the hub has no durable cause to end this epoch in this member.
func (w *releaseCheck) notReleased(ctx context.Context, o APIReader) (bool, error) {
	if w.lost {
		return true, nil
	}
	s, err := o.Session(ctx, "", w.session)
	if err != nil || s == nil {
		return false, err // deleted while its watch was interrupted
	}
	return !(&Session{SessionState: *s}).released(w.cluster, w.epoch), nil
}

// sessionStays reports whether the session is neither deleted nor being deleted.
func (w *releaseCheck) sessionStays(ctx context.Context, o APIReader) (bool, error) {
	if w.lost {
		return true, nil
	}
	s, err := o.Session(ctx, "", w.session)
	return s != nil && !s.Deleting, err
}

// released reports whether the hub has a durable cause to end this epoch in this member.
func (k *Session) released(cluster string, epoch int64) bool {
	return !k.Lost && (k.Deleting || k.Deleted || k.Epoch > epoch || k.Cluster != cluster || k.Releasing[cluster] >= epoch)
}

// ObservePod checks that no two members run a session at the same time: G1.
func (c *Checker) ObservePod(now time.Time, f PodState) {
	c.record(now, f.Session, f.Cluster+" has", f)
	seen, before := c.pods[f.UID]
	if !before {
		seen.since = now
	}
	f.Runs, f.Ended = f.Runs || seen.Runs, f.Ended || seen.Ended
	seen.PodState = f
	c.pods[f.UID] = seen
	if f.Ended || f.Stopped || c.containerLogs {
		return
	}
	for _, other := range c.pods {
		if other.Session == f.Session && other.Cluster != f.Cluster && !other.Ended && !other.Stopped && !c.mayOverlap(f.Session, f.Cluster, other.Cluster) {
			c.suspectTwo(now, f, other)
		}
	}
}

// suspectTwo opens a suspicion that two members have a Pod of a session at the same time. It is
// confirmed if the Pod that was observed first still exists: then it existed all the time.
func (c *Checker) suspectTwo(now time.Time, a PodState, other observedPod) {
	first, second := other.PodState, a
	if c.pods[a.UID].since.Before(other.since) {
		first, second = second, first
	}
	clusters := []string{first.Cluster, second.Cluster}
	slices.Sort(clusters)
	c.suspect(now, 1, fmt.Sprintf("two/%s/%s/%s", first.Session, first.UID, second.UID), &Suspicion{
		about: first.Session,
		text: fmt.Sprintf("session %s: Pod %s runs in %s (epoch %d) and in %s (epoch %d) at the same time",
			first.Session, first.Name, first.Cluster, first.Epoch, second.Cluster, second.Epoch),
		unexplained: func() bool { return !c.mayOverlap(first.Session, clusters[0], clusters[1]) },
		Confirm: func(ctx context.Context, o APIReader) (bool, error) {
			now, err := o.Pod(ctx, first)
			return err == nil && now != nil && !now.Ended && !now.Stopped, err
		},
	})
}

// mayOverlap reports whether the session is of mode Restart and one of these members is away: then
// it may run a second time.
func (c *Checker) mayOverlap(session types.UID, clusters ...string) bool {
	away, restart := false, false
	for _, cluster := range clusters {
		away = away || !c.away[cluster].IsZero()
		restart = restart || c.held[cluster][session].Mode == "Restart"
	}
	return away && restart
}

// PodDeleted checks that something required the end of a Pod that a member no longer has: G4.
func (c *Checker) PodDeleted(now time.Time, f PodState) {
	c.record(now, f.Session, f.Cluster+" has no more", f)
	seen, before := c.pods[f.UID]
	delete(c.pods, f.UID)
	if !before || f.Ended || seen.Ended || c.ignored[f.UID] {
		return
	}
	if c.held[f.Cluster][f.Session].Mode == "Fence" && c.leaseIsOver(now, f.Cluster) {
		return
	}
	release := newReleaseCheck(c, f.Session, f.Cluster, f.Epoch)
	c.suspect(now, 4, "pod/"+string(f.UID), &Suspicion{
		about: f.Session, watches: []string{Hub, f.Cluster}, wait: WatchLag,
		text:    fmt.Sprintf("Pod %s of epoch %d, attempt %d, is gone from %s, and neither side has a reason for it", f.Name, f.Epoch, f.Attempt, f.Cluster),
		prepare: release.refresh,
		unexplained: func() bool {
			return !c.mayStop(seen)
		},
		Confirm: func(ctx context.Context, o APIReader) (bool, error) {
			if missing, err := release.notReleased(ctx, o); err != nil || !missing {
				return false, err
			}
			return o.DeletionRequested(seen.PodState, seen.since, now)
		},
	})
}

// mayStop reports whether something durable requires the Pod's end. An edit of the session may
// also end a Pod that has not started yet.
func (c *Checker) mayStop(p observedPod) bool {
	k := c.sessions[p.Session]
	if k == nil || k.Lost {
		// Nothing can require the end of a session that the hub does not have.
		return false
	}
	held, there := c.held[p.Cluster][p.Session]
	since := p.since.Add(-podLead)
	return k.released(p.Cluster, p.Epoch) || !k.stopRequested.Before(since) || !p.Runs && !k.desktopChanged.Before(since) ||
		k.Attempt > p.Attempt || there && (held.Deleting || held.Epoch > p.Epoch || held.Attempt > p.Attempt)
}

// HomeDeleted checks that something required the deletion of a VDIHome or a claim: G4.
func (c *Checker) HomeDeleted(now time.Time, f HomeState) {
	c.record(now, f.Session, f.Cluster+" has no more", f)
	if c.ignored[f.UID] {
		return
	}
	release := newReleaseCheck(c, f.Session, f.Cluster, 0)
	c.suspect(now, 4, "home/"+string(f.UID), &Suspicion{
		about: f.Session, watches: []string{Hub}, wait: WatchLag,
		text:    fmt.Sprintf("home %s is gone from %s, and nothing requested it", f.Name, f.Cluster),
		prepare: release.refresh,
		unexplained: func() bool {
			k := c.sessions[f.Session]
			return k == nil || k.Lost || !k.Deleting && !k.Deleted && (k.Cluster == "" || k.Cluster == f.Cluster)
		},
		Confirm: release.sessionStays,
	})
}

// SetReachable records whether the watch of a cluster works. While it does not, whatever a member
// holds counts as reported ready, also what is deleted meanwhile.
func (c *Checker) SetReachable(cluster string, reachable bool) {
	if c.interrupted[cluster] && reachable {
		for uid, f := range c.held[cluster] {
			c.ready[placement{uid, f.Epoch}] = true
		}
	}
	c.interrupted[cluster] = !reachable
}
