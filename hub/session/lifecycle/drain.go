package lifecycle

import (
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/session/drain"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// evict moves a session out of a member that is being drained, or on an operator's
// request. A session whose desktop is not to run, or is idle, is moved at once; one in
// use is moved at the deadline of the drain. Capacity elsewhere is reserved first,
// within the drain budget. A session whose home is in the member is not moved.
func evict(p *pass) next {
	at := p.Session.Status.Placement
	if at == nil || p.Placed != nil {
		return proceed
	}
	m := p.in.Members[at.ClusterUID]
	switch {
	case m.Drain == nil:
		endDrain(p)
		return rebalance(p)
	case m.Health != health.Ready:
		return proceed // it could not confirm the stop
	}
	return evictDrained(p, m.Drain.Deadline)
}

// evictDrained handles the session of a draining member.
func evictDrained(p *pass, deadline time.Time) next {
	s := p.Session
	at := s.Status.Placement
	l := drain.Session{Key: keyOf(s), Epoch: at.Epoch, InUse: inUse(s)}
	waits := func(stage drain.Stage, message string) next {
		l.Stage = stage
		p.Drain = &l
		showDraining(p, message)
		return proceed
	}
	switch {
	case p.keptByHome():
		return waits(drain.KeptByHome, fmt.Sprintf("%s is being drained; the session stays, since its home is there: save what you need, delete it and create it again with spec.freshHome", at.ClusterName))
	case status.FailedPermanently(s) != nil:
		return waits(drain.Failed, fmt.Sprintf("%s is being drained; the session stays until it is deleted, or retried by spec.attempt", at.ClusterName))
	case at.Idle:
		moveOut(p, MovedByDrain, fmt.Sprintf("%s is being drained: it is rescheduled when it is to run again", at.ClusterName))
		p.LeavesDrain = true
		return place(p) // which shows why it is not placed
	case l.InUse && (deadline.IsZero() || p.in.Now.Before(deadline)):
		p.soon(max(0, deadline.Sub(p.in.Now)))
		return waits(drain.InUse, inUseMessage(at.ClusterName, deadline))
	}
	// Until the deadline, a desktop that runs here is better off than one that waits for a node.
	freeOnly := !neverRan(s) && (deadline.IsZero() || p.in.Now.Before(deadline))
	if freeOnly && !deadline.IsZero() {
		p.soon(deadline.Sub(p.in.Now))
	}
	switch decision, answered := p.another(isDrained, v1alpha1.ReasonDraining, &l, freeOnly); {
	case !answered:
		return proceed
	case !decision.Placed:
		return waits(drain.NoCapacity, fmt.Sprintf("%s is being drained; the session stays while no other member accepts it: %s", at.ClusterName, decision.Message))
	default:
		moveOut(p, MovedByDrain, fmt.Sprintf("%s is being drained: it is moved to %s", at.ClusterName, decision.Cluster.Name))
		return done
	}
}

// isDrained is the reason not to place a session again in its drained member.
const isDrained = "Draining: it is being drained"

// inUse reports whether stopping the desktop may lose work: a desktop counts as in use if
// it was ever ready and does not report that it is idle.
func inUse(s *v1alpha1.VDISession) bool {
	return status.ToRun(s) && s.Status.IdleSince == nil && !neverRan(s)
}

func inUseMessage(cluster string, deadline time.Time) string {
	if deadline.IsZero() {
		return fmt.Sprintf("%s is being drained: once the desktop is not in use it is stopped and restarted in another member; save your work", cluster)
	}
	return fmt.Sprintf("%s is being drained: the desktop is stopped and restarted in another member at %s, or once it is not in use; save your work",
		cluster, deadline.UTC().Format(time.RFC3339))
}

// moveOut releases a placement in a member that remains in the fleet.
func moveOut(p *pass, reason, message string) {
	s := p.Session
	p.Moved = reason
	releasePlacement(s)
	p.normal(v1alpha1.EventMoved, "Move", message)
}

// showDraining shows on a session that its member is being drained, and the consequence for it.
func showDraining(p *pass, message string) {
	s := p.Session
	before := status.ReasonOf(s, v1alpha1.ConditionScheduled)
	status.SetTrue(s, v1alpha1.ConditionScheduled, v1alpha1.ReasonDraining, message)
	if before != v1alpha1.ReasonDraining {
		p.warn(v1alpha1.EventDraining, "Drain", message)
	}
}

// endDrain reverts the condition after a drain was canceled.
func endDrain(p *pass) {
	s := p.Session
	if status.ReasonOf(s, v1alpha1.ConditionScheduled) != v1alpha1.ReasonDraining {
		return
	}
	message := s.Status.Placement.ClusterName + ": it is placed there, and is not drained any more"
	status.SetTrue(s, v1alpha1.ConditionScheduled, v1alpha1.ReasonPlaced, message)
	p.normal(v1alpha1.EventDraining, "Drain", message)
}

// rebalance moves a session on an operator's request, if it is not in use and another member
// has capacity, and otherwise records why it is not moved. That completes the request.
func rebalance(p *pass) next {
	s := p.Session
	at := s.Status.Placement
	from, requested := s.Annotations[v1alpha1.AnnotationMove]
	switch {
	case !requested:
		return proceed
	case from != at.ClusterName:
		return endMove(p, "") // it was moved
	case p.in.Members[at.ClusterUID].Health != health.Ready:
		return endMove(p, at.ClusterName+" could not confirm its stop now: see the member's condition Ready")
	case status.FailedPermanently(s) != nil:
		return endMove(p, "it has failed permanently: raise spec.attempt to retry it")
	case inUse(s):
		return endMove(p, "it is in use, or does not report whether it is")
	case p.keptByHome():
		return endMove(p, "its home is in "+at.ClusterName)
	}
	switch decision, answered := p.another(memory.MovedOut, MovedByRebalance, nil, true); {
	case !answered:
		return proceed
	case !decision.Placed:
		p.Release = true
		return endMove(p, "no other member accepts it: "+decision.Message)
	default:
		moveOut(p, MovedByRebalance, fmt.Sprintf("it was moved out of %s: it is placed in %s", at.ClusterName, decision.Cluster.Name))
		return done
	}
}

// endMove completes the request to move the session. Nothing else is written.
func endMove(p *pass, notMoved string) next {
	p.EndMove, p.NotMoved, p.Hold = true, notMoved, true
	return done
}
