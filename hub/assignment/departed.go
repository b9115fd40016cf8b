package assignment

import (
	"cmp"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// maxDepartures bounds the memory for sessions that were deleted without their
// finalizer, some 3 MB. Beyond it, what they leave in members is an orphan.
const maxDepartures = 10_000

// departure is a session that was deleted although a member may still run it:
// somebody removed its finalizer. The hub withdraws it from its members, since it
// has seen the deletion in its watch: that is a durable cause. That a session is
// absent from a list is none: a list after a restore from a backup lacks sessions
// that nobody deleted. So a new leader, which only sees the absence, leaves what
// members report of such a session as an orphan, and so does a hub whose watch
// began again with a list.
type departure struct {
	session types.UID
	// members are what each has yet to confirm, by its UID.
	members map[types.UID]v1alpha1.Release
}

// Departures remembers the departed sessions, by their assignments, until every
// member has confirmed that nothing of them runs.
type Departures struct {
	mu   sync.Mutex
	most int // zero: maxDepartures
	by   map[types.NamespacedName]*departure
	// released are the sessions whose finalizer this process removes.
	released map[types.UID]bool
	notify   func([]mcreconcile.Request)
}

// Release notes that this process removes a session's finalizer: its deletion is
// no departure.
func (d *Departures) Release(session types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.released == nil {
		d.released = map[types.UID]bool{}
	}
	d.released[session] = true
}

// Keep takes that back: the finalizer could not be removed, or the session is gone.
func (d *Departures) Keep(session types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.released, session)
}

// Observe notes a session whose deletion the hub's watch reports. gone reports
// whether a member was removed for good, so that nobody will confirm for it.
func (d *Departures) Observe(s *v1alpha1.VDISession, gone func(types.UID) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.released[s.UID] {
		delete(d.released, s.UID)
		return
	}
	left := &departure{session: s.UID, members: map[types.UID]v1alpha1.Release{}}
	for _, o := range status.Outstanding(s) {
		if held, ok := left.members[o.ClusterUID]; !ok || held.Epoch < o.Epoch {
			left.members[o.ClusterUID] = o
		}
	}
	if len(left.members) == 0 {
		return
	}
	logger := log.Log.WithName("session").WithValues("session", s.Namespace+"/"+s.Name, "sessionUID", s.UID)
	if len(d.by) >= cmp.Or(d.most, maxDepartures) && !d.prune(gone) {
		logger.Info("Too many sessions were deleted without their finalizer: what members run of this one is left alone", "remembered", len(d.by))
		return
	}
	if d.by == nil {
		d.by = map[types.NamespacedName]*departure{}
	}
	d.by[types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}] = left
	logger.Info("A session was deleted without its finalizer: it is withdrawn from its members", "members", len(left.members))
	if d.notify != nil {
		d.notify(requestsOf(s))
	}
}

// prune drops what nobody will ever confirm. It reports whether there is space.
func (d *Departures) prune(gone func(types.UID) bool) bool {
	for key, left := range d.by {
		for member := range left.members {
			if gone(member) {
				delete(left.members, member)
			}
		}
		if len(left.members) == 0 {
			delete(d.by, key)
		}
	}
	return len(d.by) < cmp.Or(d.most, maxDepartures)
}

// of returns the session of an assignment that a member has yet to confirm, and up
// to which epoch; false where there is none.
func (d *Departures) of(assignment types.NamespacedName, member types.UID) (session types.UID, upTo int64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := d.by[assignment]
	if left == nil {
		return "", 0, false
	}
	o, ok := left.members[member]
	return left.session, o.Epoch, ok
}

// Departed reports whether a session was deleted without its finalizer and a member has
// not confirmed its stop.
func (d *Departures) Departed(assignment types.NamespacedName, member types.UID) bool {
	_, _, departed := d.of(assignment, member)
	return departed
}

// stopped notes that a member has confirmed that nothing of a session runs there.
func (d *Departures) stopped(assignment types.NamespacedName, member types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := d.by[assignment]
	if left == nil {
		return
	}
	if delete(left.members, member); len(left.members) == 0 {
		delete(d.by, assignment)
	}
}

// in returns the assignments that a member has yet to confirm.
func (d *Departures) in(member types.UID) []types.NamespacedName {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []types.NamespacedName
	for assignment, left := range d.by {
		if _, ok := left.members[member]; ok {
			out = append(out, assignment)
		}
	}
	return out
}

// listen has the withdrawals of departed sessions requested.
func (d *Departures) listen(notify func([]mcreconcile.Request)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notify = notify
}

// planDeparted returns what to do about an assignment of a departed session that a
// member has to stop up to an epoch. What the member has of a later epoch the hub
// never gave it.
func planDeparted(upTo int64, reported *v1alpha1.SessionAssignment) (Step, int64) {
	if reported != nil && reported.Spec.Epoch > upTo && !status.Ended(reported) {
		return Orphan, reported.Spec.Epoch
	}
	next, epoch := planStop(status.Desired{Stop: true, StopEpoch: upTo}, reported)
	if next == RecordStopped {
		return Forget, max(epoch, reported.Spec.Epoch)
	}
	return next, epoch
}
