package assignment

import (
	"cmp"
	"maps"
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
	// members have the last epochs whose stop is not confirmed.
	members map[types.UID]int64
}

// Departures has the departed sessions, by assignment, until every member has confirmed
// that nothing of them runs.
type Departures struct {
	mu    sync.Mutex
	limit int // maxDepartures if zero
	by    map[types.NamespacedName]*departure
	// released are the UIDs of sessions whose finalizer this process removes.
	released sync.Map
	notify   func(mcreconcile.Request)
}

// Release records that this process removes a session's finalizer: its deletion is no
// departure.
func (d *Departures) Release(session types.UID) { d.released.Store(session, true) }

// Keep reverts Release: the finalizer could not be removed, or the session is gone.
func (d *Departures) Keep(session types.UID) { d.released.Delete(session) }

// Observe records a session whose deletion the hub's watch reports. gone reports whether a
// member was removed permanently, and so will confirm nothing.
func (d *Departures) Observe(s *v1alpha1.VDISession, gone func(types.UID) bool) {
	if _, ours := d.released.LoadAndDelete(s.UID); ours {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	left := &departure{session: s.UID, members: map[types.UID]int64{}}
	for _, o := range status.Outstanding(s) {
		left.members[o.ClusterUID] = max(left.members[o.ClusterUID], o.Epoch)
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
	d.by[KeyOf(s)] = left
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
	maps.DeleteFunc(d.by, func(_ types.NamespacedName, left *departure) bool {
		maps.DeleteFunc(left.members, func(member types.UID, _ int64) bool { return gone(member) })
		return len(left.members) == 0
	})
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
	upTo, ok = left.members[member]
	return left.session, upTo, ok
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
