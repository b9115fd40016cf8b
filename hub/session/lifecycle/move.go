package lifecycle

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/drain"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// move releases a placement whose Pod has had no node for too long, if another member has
// capacity for the session now. The member's free capacity may differ from the hub's
// count: kube-scheduler chooses the nodes, and autoscalers may add none. The session is
// rescheduled once its stop is confirmed; until then the capacity elsewhere stays reserved.
// Without capacity elsewhere it stays, and is queued like a pending session.
//
// A session that has run there is not moved, nor one whose home is there.
func move(p *pass) next {
	s := p.Session
	reason := WithoutNode(s)
	if reason == "" {
		return proceed
	}
	if m := p.in.Members[s.Status.Placement.ClusterUID]; m.Drain != nil || m.Health != health.Ready {
		return proceed // it is moved anyway, or its member could not confirm the stop
	}
	switch wait := p.in.Known.NodeWait; {
	case wait == nil:
		p.soon(p.in.Timings.MoveAfter)
		return proceed
	case *wait > 0:
		p.soon(*wait)
		return proceed
	}
	if p.keptByHome() {
		return proceed
	}
	why := moves[reason]
	d, answered := p.another(why.cause.Exclusion(), v1alpha1.ReasonUnschedulablePod, nil, false)
	if !answered || !d.Placed {
		return proceed
	}
	p.Moved = string(why.cause)
	p.warn(v1alpha1.EventMoved, "Move", fmt.Sprintf(why.message, s.Status.Placement.ClusterName, d.Cluster.Name))
	releasePlacement(s)
	return done
}

// moves are the causes for which a session is moved, by the reasons for which its Pod has no node.
var moves = map[string]struct {
	cause   memory.Cause
	message string
}{
	v1alpha1.ReasonUnschedulablePod: {memory.NoNodeFits, "no node of %s fits its Pod: it is moved to %s"},
	v1alpha1.ReasonScaleUpFailed:    {memory.ScaleUpFailed, "%s adds no node for its Pod: it is moved to %s"},
	v1alpha1.ReasonNodeProvisioning: {memory.ProvisioningTimeout, "%s has not added a node for its Pod within maxProvisioningTime: it is moved to %s"},
}

// WithoutNode returns the reason for which the Pod of a session that never ran where it is
// placed has no node there, or "" if it has one or has no Pod yet.
func WithoutNode(s *v1alpha1.VDISession) string {
	pod := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionPodReady)
	if s.Status.Placement == nil || pod == nil || pod.Status != metav1.ConditionFalse || !neverRan(s) {
		return ""
	}
	if _, without := moves[pod.Reason]; without {
		return pod.Reason
	}
	return ""
}

// neverRan reports whether a session that is to run was never ready where it is placed.
func neverRan(s *v1alpha1.VDISession) bool {
	at, start := s.Status.Placement, s.Status.StartTime
	if !status.ToRun(s) {
		return false
	}
	return start == nil || s.Status.RunningSince == nil && at.Run <= 1 && start.Before(&at.PlacementTime)
}

// another requests capacity in any member other than the current one, by the current
// policies. why is the reason against the current member, reason is what the session
// waits for, evicted is set if a drain's budget has to allow it first, and freeOnly if the
// session must not wait for a node to be added. The decision is not Placed if no policy governs
// the session.
func (p *pass) another(why, reason string, evicted *drain.Session, freeOnly bool) (d placement.Decision, answered bool) {
	s := p.Session
	policy, found := p.in.Policies.Governing(s)
	if !found {
		p.Waits = reason
		return d, true
	}
	req := p.request(policy)
	req.Exclude(s.Status.Placement.ClusterUID, why)
	req.FreeOnly = freeOnly
	a, answered := p.decide(Request{Evict: evicted, Request: scheduling.Request{Placement: req, Epoch: p.in.nextEpoch(s), Reason: reason}})
	return a.Decision, answered
}
