package memory

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// timeoutDoubles is how many of a session's moves each double the timeout in the next
	// member: a Pod that fits no node anywhere is not moved forever.
	timeoutDoubles = 5
	// LeftFor is how long a session is not placed again where no node fit its Pod, or where
	// it was moved out of.
	LeftFor = 2 * time.Minute
)

// Cause is why a session was moved out of a member that had no node for its Pod: the reason that the
// metric of moved sessions counts.
type Cause string

const (
	// NoNodeFits means that kube-scheduler found no node for the Pod.
	NoNodeFits Cause = v1alpha1.ReasonUnschedulablePod
	// ScaleUpFailed means that none of the member's node groups added a node for the Pod.
	ScaleUpFailed Cause = v1alpha1.ReasonScaleUpFailed
	// ProvisioningTimeout means that a node was not added within the policy's maxProvisioningTime.
	ProvisioningTimeout Cause = "ProvisioningTimeout"
)

// exclusions explain why a session is not placed where it was moved out for a cause.
var exclusions = map[Cause]string{
	NoNodeFits:          "no node of it fits the Pod",
	ScaleUpFailed:       "no node group of it added a node for the Pod: see status.nodeGroups of the MemberCluster",
	ProvisioningTimeout: "it added no node for the Pod within maxProvisioningTime of the policy",
}

// Exclusion returns the cause with its explanation, for the reason against a member.
func (c Cause) Exclusion() string { return string(c) + ": " + exclusions[c] }

// misfit is a session whose Pod fits no node, or did not before it was moved. Without it
// the timeout starts over.
type misfit struct {
	// epoch of the placement in which its Pod fits no node; 0 if none.
	epoch int64
	// due is when another member may be tried.
	due time.Time
	// count of its moves, and the members that it was moved out of.
	count int
	left  map[types.UID]leftWithoutNode
}

// leftWithoutNode is why a session was moved out of a member, where it is not placed again until then.
type leftWithoutNode struct {
	cause Cause
	until time.Time
}

// MisfitWait returns how long a session's member still has to find a node for its Pod, or 0 if
// another is tried.
func (m *Memory) MisfitWait(s *v1alpha1.VDISession, now time.Time, timeout time.Duration) (wait time.Duration) {
	m.with(s.UID, func(r *record) {
		f, at := r.misfits(), s.Status.Placement
		if f.epoch != at.Epoch {
			f.epoch, f.due = at.Epoch, now.Add(timeout<<min(f.count, timeoutDoubles))
		}
		wait = max(0, f.due.Sub(now))
	})
	return wait
}

// misfits returns the record of a session's misfits, and begins one.
func (r *record) misfits() *misfit {
	if r.misfit == nil {
		r.misfit = &misfit{left: map[types.UID]leftWithoutNode{}}
	}
	return r.misfit
}

// Moved records that a session was moved since its Pod had no node.
func (m *Memory) Moved(session types.UID, from *v1alpha1.Placement, cause Cause, now time.Time) {
	m.with(session, func(r *record) {
		f := r.misfits()
		f.count++
		f.left[from.ClusterUID] = leftWithoutNode{cause, now.Add(LeftFor)}
	})
}

// Settled records that a session does not wait for a node where it is placed. The members
// that it was moved out of are remembered until it has run.
func (m *Memory) Settled(s *v1alpha1.VDISession) {
	m.with(s.UID, func(r *record) {
		switch f := r.misfit; {
		case f == nil:
		case s.Status.RunningSince != nil || len(f.left) == 0:
			r.misfit = nil
		default:
			f.epoch = 0
		}
	})
}

// MovedOut is why a session is not placed in a member that it was moved out of on request.
const MovedOut = "Moved: it was moved out of that member"

// leftMember is a member that a session was moved out of.
type leftMember struct {
	member types.UID
	until  time.Time
}
