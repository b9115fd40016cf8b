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
// finalizer, some 3 MB. Assignments of further ones are orphans.
const maxDepartures = 10_000

// departure is a session that was deleted although a member may still run it: its
// finalizer was removed by hand. The hub withdraws it from its members, since the
// deletion in its watch is a durable cause. An absence from a list is none: after a
// restore from a backup a list lacks sessions that were not deleted. So a new leader, or
// a watch that began again with a list, treats the assignments of such a session as
// orphans.
type departure struct {
	session types.UID
	// members are the unconfirmed releases, by member.
	members map[types.UID]v1alpha1.Release
}

// Departures has the departed sessions, by assignment, until every member has confirmed
// that nothing of them runs.
type Departures struct {
	mu    sync.Mutex
	limit int // maxDepartures if zero
	by    map[types.NamespacedName]*departure
	// released are the sessions whose finalizer this process removes.
	released map[types.UID]bool
	notify   func(mcreconcile.Request)
}

// Release records that this process removes a session's finalizer: its deletion is no
// departure.
func (d *Departures) Release(session types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.released == nil {
		d.released = map[types.UID]bool{}
	}
	d.released[session] = true
}

// Keep reverts Release: the finalizer could not be removed, or the session is gone.
func (d *Departures) Keep(session types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.released, session)
}

// Observe records a session whose deletion the hub's watch reports. gone reports whether a
// member was removed permanently, and so will confirm nothing.
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
	if len(d.by) >= cmp.Or(d.limit, maxDepartures) && !d.prune(gone) {
		logger.Info("Too many sessions were deleted without their finalizer: this one is not withdrawn from its members", "remembered", len(d.by))
		return
	}
	if d.by == nil {
		d.by = map[types.NamespacedName]*departure{}
	}
	d.by[types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}] = left
	logger.Info("A session was deleted without its finalizer: it is withdrawn from its members", "members", len(left.members))
	if d.notify == nil {
		return
	}
	for _, request := range requestsOf(s) {
		d.notify(request)
	}
}

// prune drops departures that no member will confirm, and reports whether there is space.
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
	return len(d.by) < cmp.Or(d.limit, maxDepartures)
}

// of returns the session of an assignment whose stop a member has not confirmed, and the last
// epoch that it must stop. It returns false if there is none.
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

// stopped records that a member has confirmed that nothing of a session runs there.
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

// in returns the assignments whose stop a member has not confirmed.
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

// listen sets the function that is called with each withdrawal of a departed session.
func (d *Departures) listen(notify func(mcreconcile.Request)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notify = notify
}

// planDeparted returns the step for an assignment of a departed session that a member must
// stop up to an epoch. A later epoch is an orphan: the hub did not assign it.
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
