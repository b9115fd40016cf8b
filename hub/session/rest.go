package session

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// repose is why a session's desktop is not to run.
type repose string

const (
	// reposeNone: it is to run.
	reposeNone repose = ""
	// reposeSuspended: spec.operatingMode says so.
	reposeSuspended repose = "Suspended"
	// reposeFailed: the agent has given up this attempt, and no higher one is
	// asked for.
	reposeFailed repose = "Failed"
	// reposeExpired: its time is used up.
	reposeExpired repose = "Expired"
)

// reposeOf returns the first that applies. All of them are durable: what the spec
// says, what the mirror has written, and, of a member that is away, the time.
func reposeOf(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, away bool, now time.Time) repose {
	switch {
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended:
		return reposeSuspended
	case givenUp(s) != nil && s.Spec.Attempt <= s.Status.Attempt:
		return reposeFailed
	case timeOver(s, t), away && overdue(s, t, now):
		return reposeExpired
	}
	return reposeNone
}

// givenUp is the condition that says that the agent has given the session up,
// or nil.
func givenUp(s *v1alpha1.VDISession) *metav1.Condition {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionProgressing)
	if c == nil || c.Status != metav1.ConditionFalse {
		return nil
	}
	return c
}

// retrying is true of a session that was given up and is to be tried again.
func retrying(s *v1alpha1.VDISession) bool {
	return s.Status.Placement != nil && givenUp(s) != nil && s.Spec.Attempt > s.Status.Attempt &&
		s.Spec.OperatingMode != v1alpha1.ModeSuspended
}

// rest ends the run of a session whose desktop is not to run. It keeps its
// place, home and URL; its slot is given back, by its member's next report. One
// that was given up is idle by itself, also where it is to be tried again.
func (r *Reconciler) rest(_ context.Context, p *pass) (next, error) {
	s, now := p.session, r.Clock.Now()
	away := r.Fleet.HealthOf(s.Status.Placement.ClusterUID) == health.Unreachable
	why := reposeOf(s, p.spec, away, now)
	if s.Status.Placement.Idle || why == reposeNone && givenUp(s) == nil {
		return goOn, nil
	}
	s.Status.Placement.Idle = true
	endRun(s, now)
	switch cluster := s.Status.Placement.ClusterName; why {
	case reposeSuspended:
		p.record(r, "Normal", v1alpha1.EventSuspended, "Suspend", fmt.Sprintf("its desktop in %s is stopped, as spec.operatingMode says; its home and its URL are kept", cluster))
	case reposeExpired:
		p.record(r, "Warning", v1alpha1.EventExpired, "Expire", expiredMessage(s, p.spec))
	default:
		p.record(r, "Warning", v1alpha1.EventFailed, "Fail", fmt.Sprintf("given up in %s: %s", cluster, givenUp(s).Message))
	}
	return goOn, nil
}

// remain keeps a session idle. What a resume has reserved and could not write is
// given back; that there was no room to resume matters no more.
func (r *Reconciler) remain(p *pass) {
	s := p.session
	r.Fleet.Release(s.UID)
	if meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionScheduled) {
		return
	}
	v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
		Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPlaced,
		Message: s.Status.Placement.ClusterName + ": it is placed there, and idle",
	})
}
