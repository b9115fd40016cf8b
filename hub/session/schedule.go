package session

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/queue"
)

// Scheduler decides on sessions that request capacity.
type Scheduler interface {
	// Decide returns the answer to a request. If ok is false, the session is enqueued once
	// there is one.
	Decide(req *scheduling.Request) (a scheduling.Answer, ok bool)
	// Wait records that a session waits for a reason other than capacity. It returns
	// after what time the session is reconciled again at the latest.
	Wait(session types.NamespacedName, uid types.UID, rank queue.Rank, reason string) time.Duration
	// Done ends a pass: placed reports whether its placement was written.
	Done(session types.NamespacedName, placed bool, err error)
	// Forget removes a session that is no longer to be placed.
	Forget(session types.NamespacedName)
	// Answered reports whether there is an answer to a session's request that no pass has read.
	Answered(session types.NamespacedName) bool
	// Enqueue enqueues a session for its controller.
	Enqueue(session types.NamespacedName)
	// Pending returns the sessions whose requests fit no member.
	Pending(of func(*scheduling.Request) bool) []types.NamespacedName
}

// rankOf returns the rank of a session among the pending ones.
func rankOf(s *v1alpha1.VDISession) queue.Rank {
	return queue.Rank{Priority: s.Spec.Placement.Priority, Namespace: s.Namespace, User: s.Spec.User, Since: waitsSince(s)}
}

// waitsSince returns since when a session has not been placed, or, before its first
// placement, when it was created.
func waitsSince(s *v1alpha1.VDISession) time.Time {
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled); c != nil && s.Status.Epoch > 0 {
		return c.LastTransitionTime.Time
	}
	return s.CreationTimestamp.Time
}

// RefusalExpired reports whether a member that has refused a session for lack of capacity has
// reported its capacity since.
func (r *Reconciler) RefusalExpired(session, member types.UID) bool {
	return r.memory.RefusalExpired(session, member, r.Fleet.ReportedAt(member))
}
