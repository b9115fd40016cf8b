package checker

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// WatchLag is how far a watch may lag behind another before their difference is a violation. It is
// far above the lag on a loaded machine.
const WatchLag = 5 * time.Second

// podLead is how long before a Pod another watch may show the reason for the Pod's end.
const podLead = 2 * time.Second

// Checker compares what the API servers hold with the guarantees. It has no clock, and reads an
// API server only by an APIReader, to confirm a suspected violation.
type Checker struct {
	state
	outages
	journal
	suspicions
	nodeLimits
	// containerLogs means that the simulated kubelets' logs show what runs: the existence of a Pod
	// proves nothing.
	containerLogs bool
	// ignored are objects that the tests removed themselves.
	ignored map[types.UID]bool
}

// Configure sets how long a member must be away before its sessions are rescheduled, and whether
// the kubelets' logs show what runs.
func (c *Checker) Configure(p MinimumOutage, containerLogs bool) {
	c.minimum, c.containerLogs = p, containerLogs
}

// Ignore makes the checker expect the end of an object that the tests remove themselves.
func (c *Checker) Ignore(object types.UID) { c.ignored[object] = true }

// New returns a checker that has observed nothing yet.
func New() *Checker {
	return &Checker{
		state: newState(), outages: newOutages(), journal: newJournal(),
		suspicions: suspicions{}, nodeLimits: nodeLimits{}, ignored: map[types.UID]bool{},
	}
}

// ObserveSession compares each state of a session on the hub with the guarantees.
func (c *Checker) ObserveSession(now time.Time, f SessionState) {
	c.record(now, f.UID, "hub has", f)
	k := c.sessions[f.UID]
	if k == nil {
		k = &Session{}
		c.sessions[f.UID] = k
	}
	key := string(f.UID)
	if f.Epoch < k.Epoch {
		c.Report(now, 2, f.UID, key, "session %s: status.epoch fell from %d to %d", f.Name, k.Epoch, f.Epoch)
	}
	if f.Cluster != "" {
		c.checkPlacement(now, k, f)
		c.checkEpochReuse(now, k, f)
	}
	for cluster, epoch := range f.Superseded {
		c.checkSuperseded(now, f, cluster, epoch)
	}
	k.SessionState, k.Deleted, k.Lost = f, false, false
	if f.Suspended {
		k.stopRequested = now
	}
}

// checkPlacement checks a placement: G2 and G3.
func (c *Checker) checkPlacement(now time.Time, k *Session, f SessionState) {
	p := placement{f.UID, f.Placed}
	key := fmt.Sprintf("%s/%d", f.UID, f.Placed)
	if f.Placed < k.highestPlaced {
		c.Report(now, 2, f.UID, key, "session %s: its placement went from epoch %d back to %d", f.Name, k.highestPlaced, f.Placed)
	}
	k.highestPlaced = max(k.highestPlaced, f.Placed)
	if f.Placed > f.Epoch {
		c.Report(now, 3, f.UID, key, "session %s: placed under epoch %d, above its highest %d", f.Name, f.Placed, f.Epoch)
	}
	if before, assigned := c.epochs[p]; assigned && before != f.Cluster {
		c.Report(now, 3, f.UID, key, "session %s: epoch %d was assigned to %s, and then to %s", f.Name, f.Placed, before, f.Cluster)
	}
	c.epochs[p] = f.Cluster
	if f.PodReady && !c.ready[p] {
		blind := c.interrupted[f.Cluster]
		c.suspect(now, 2, "ready/"+key, &Suspicion{
			about: f.UID, watches: []string{f.Cluster}, wait: WatchLag,
			text:        fmt.Sprintf("session %s: the hub shows its desktop ready in %s under epoch %d, and the member has never reported it", f.Name, f.Cluster, f.Placed),
			unexplained: func() bool { return !c.ready[p] },
			prepare:     func() { blind = blind || c.interrupted[f.Cluster] },
			Confirm: func(ctx context.Context, o APIReader) (bool, error) {
				a, err := o.Assignment(ctx, f.Cluster, f.Name, f.UID)
				if a == nil && blind {
					return false, err // it may have been stored, ready and deleted while the member was not watched
				}
				return err == nil && (a == nil || a.Epoch != f.Placed || !a.PodReady), err
			},
		})
	}
}

// SessionDeleted records that the hub no longer has a session.
func (c *Checker) SessionDeleted(now time.Time, uid types.UID) {
	c.record(now, uid, "hub has no more", "")
	if k := c.sessions[uid]; k != nil {
		k.Deleted = true
	}
}

// Restored records that the hub's API server was restored to an earlier time, and holds these
// sessions. Sessions since then are lost, not deleted. Epochs fall to those of the backup, once;
// no other epoch that was ever observed may be assigned again.
func (c *Checker) Restored(holds map[types.UID]SessionState) {
	for uid, k := range c.sessions {
		k.beforeRestore = max(k.beforeRestore, k.Epoch, k.highestPlaced)
		for _, held := range c.held {
			k.beforeRestore = max(k.beforeRestore, held[uid].Epoch)
		}
		now, held := holds[uid]
		k.Lost = k.Lost || !held && !k.Deleted
		k.Epoch, k.highestPlaced, k.backup = now.Epoch, now.Placed, now.Epoch
	}
	c.suspicions = map[string]*Suspicion{}
}

// checkEpochReuse checks that a restored hub assigns no epoch that was observed before, unless the
// member holds it and so proves what the hub has lost: G3.
func (c *Checker) checkEpochReuse(now time.Time, k *Session, f SessionState) {
	if f.Placed <= k.backup || f.Placed > k.beforeRestore || c.held[f.Cluster][f.UID].Epoch == f.Placed {
		return
	}
	c.Report(now, 3, f.UID, fmt.Sprintf("%s/%d/again", f.UID, f.Placed),
		"session %s: epoch %d was seen before the hub was restored, and is assigned to %s, which does not hold it", f.Name, f.Placed, f.Cluster)
}

// checkStoredAgain checks that no epoch from before a restore reaches a member that does not hold
// it: G3.
func (c *Checker) checkStoredAgain(now time.Time, f AssignmentState, was bool) {
	k := c.sessions[f.Session]
	if k == nil || k.beforeRestore == 0 || was || f.Epoch > k.beforeRestore || c.interrupted[f.Cluster] {
		return
	}
	c.Report(now, 3, f.Session, fmt.Sprintf("%s/%d/stored", f.Session, f.Epoch),
		"assignment %s: %s holds epoch %d, of before the hub was restored, and did not then", f.Name, f.Cluster, f.Epoch)
}

// ObserveAssignment compares each state of an assignment in a member with the guarantees.
func (c *Checker) ObserveAssignment(now time.Time, f AssignmentState) {
	c.record(now, f.Session, f.Cluster+" holds", f)
	if c.held[f.Cluster] == nil {
		c.held[f.Cluster] = map[types.UID]AssignmentState{}
	}
	before, was := c.held[f.Cluster][f.Session]
	c.checkStoredAgain(now, f, was)
	c.held[f.Cluster][f.Session] = f
	if f.occupies() && (!was || !before.occupies()) {
		suspectSessions(c, now, f)
	}
	if k := c.sessions[f.Session]; k != nil {
		if f.Suspended || f.Failed || f.Lapsed {
			k.stopRequested = now
		}
		if was && before.Desktop != f.Desktop {
			k.desktopChanged = now
		}
	}
	p := placement{f.Session, f.Epoch}
	if f.PodReady {
		c.ready[p] = true
	}
	c.checkAssigned(now, f, p)
	c.checkUnchanged(now, f, p)
	c.checkPlaced(now, f)
}

// checkAssigned checks that the hub assigned this epoch to this member: G3.
func (c *Checker) checkAssigned(now time.Time, f AssignmentState, p placement) {
	key := fmt.Sprintf("%s/%d", f.Session, f.Epoch)
	if cluster, assigned := c.epochs[p]; assigned {
		if cluster != f.Cluster {
			c.Report(now, 3, f.Session, key, "assignment %s: %s holds epoch %d, which was assigned to %s", f.Name, f.Cluster, f.Epoch, cluster)
		}
		return
	}
	name := ""
	if k := c.sessions[f.Session]; k != nil {
		if k.Lost {
			return
		}
		name = k.Name
	}
	blind := false
	c.suspect(now, 3, "assigned/"+key, &Suspicion{
		about: f.Session, watches: []string{Hub},
		text:        fmt.Sprintf("assignment %s: %s holds epoch %d, which the hub's API server does not have", f.Name, f.Cluster, f.Epoch),
		unexplained: func() bool { return c.epochs[p] == "" },
		prepare:     func() { blind = blind || c.interrupted[Hub] },
		Confirm: func(ctx context.Context, o APIReader) (bool, error) {
			s, err := o.Session(ctx, name, f.Session)
			if s == nil && blind {
				return false, err // it may have been placed, and deleted, while the hub was not watched
			}
			return err == nil && (s == nil || s.Epoch < f.Epoch), err
		},
	})
}

// checkUnchanged checks that an attempt keeps its revision, and a session its user: G3.
func (c *Checker) checkUnchanged(now time.Time, f AssignmentState, p placement) {
	key := fmt.Sprintf("%s/%d/spec", f.Session, f.Epoch)
	m := placementAttempt{p, f.Attempt}
	if before, seen := c.revision[m]; seen && before != f.Revision {
		c.Report(now, 3, f.Session, key, "assignment %s: attempt %d of epoch %d was made of revision %s, and then of %s", f.Name, f.Attempt, f.Epoch, before, f.Revision)
	}
	c.revision[m] = f.Revision
	if before, seen := c.users[f.Session]; seen && before != f.User {
		c.Report(now, 3, f.Session, key+"/user", "assignment %s: of user %s, and then of %s", f.Name, before, f.User)
	}
	c.users[f.Session] = f.User
}

// checkPlaced checks that the session is placed in this member, or being released: G5.
func (c *Checker) checkPlaced(now time.Time, f AssignmentState) {
	wrong := func() bool {
		held, there := c.held[f.Cluster][f.Session]
		k := c.sessions[f.Session]
		return there && !c.removed[f.Cluster] && held.Epoch == f.Epoch && (k == nil || !k.Lost && (k.Deleted || !k.admits(f.Cluster, f.Epoch)))
	}
	if !wrong() {
		return
	}
	name := ""
	if k := c.sessions[f.Session]; k != nil {
		name = k.Name
	}
	c.suspect(now, 5, fmt.Sprintf("belongs/%s/%s", f.Cluster, f.Session), &Suspicion{
		about: f.Session, watches: []string{Hub, f.Cluster}, wait: WatchLag,
		text:        fmt.Sprintf("assignment %s: %s holds epoch %d, and the session is neither placed there nor being released", f.Name, f.Cluster, f.Epoch),
		unexplained: wrong,
		Confirm: func(ctx context.Context, o APIReader) (bool, error) {
			// Read the member first: an assignment that disappears in between was rightly released.
			a, err := o.Assignment(ctx, f.Cluster, f.Name, f.Session)
			if err != nil || a == nil {
				return false, err
			}
			s, err := o.Session(ctx, name, f.Session)
			return err == nil && (s == nil || !s.admits(f.Cluster, a.Epoch)), err
		},
	})
}
