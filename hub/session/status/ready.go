package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var (
	placementConditions = []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionScheduled}
	desktopConditions   = append([]string{v1alpha1.ConditionAssigned}, AgentConditions...)
)

// Summarize derives Ready, message, phase and times from the other conditions. The
// template may be nil.
func Summarize(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) {
	st := &s.Status
	st.ObservedGeneration = s.Generation
	if t != nil && s.DeletionTimestamp.IsZero() {
		showExpiration(s, t)
	}
	showGuard(s)
	ready := readyCondition(s, t, now)
	v1alpha1.SetCondition(&st.Conditions, s.Generation, *ready)
	st.Phase = v1alpha1.PhaseOf(st.Conditions, !s.DeletionTimestamp.IsZero(), s.Spec.OperatingMode)
	st.Message = ready.Message
	if ready.Status == metav1.ConditionTrue {
		st.Message = ""
	}
	if refused := refusedChange(s); refused != nil && st.Message == "" {
		st.Message = refused.Message
	}
}

// refusedChange returns the condition Accepted of a placed session whose later change was
// not accepted: the session continues unchanged.
func refusedChange(s *v1alpha1.VDISession) *metav1.Condition {
	accepted := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAccepted)
	if accepted == nil || accepted.Status != metav1.ConditionFalse || !meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionScheduled) {
		return nil
	}
	return accepted
}

// newReady returns the condition Ready.
func newReady(status metav1.ConditionStatus, reason, message string) *metav1.Condition {
	return &metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message}
}

// readyCondition returns Ready: the first part that is missing determines it.
func readyCondition(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) *metav1.Condition {
	if !s.DeletionTimestamp.IsZero() {
		return terminating(s)
	}
	missing := cmp.Or(firstMissing(s, placementConditions), stopped(s, t), awaitingFailover(s), firstProblem(s), firstMissing(s, desktopConditions))
	if missing != nil {
		return missing
	}
	return working(s, t, now)
}

// firstMissing returns Ready for the first of the conditions that is absent or False, or
// nil.
func firstMissing(s *v1alpha1.VDISession, names []string) *metav1.Condition {
	for _, name := range names {
		if name == v1alpha1.ConditionAccepted && refusedChange(s) != nil {
			continue
		}
		switch part := meta.FindStatusCondition(s.Status.Conditions, name); {
		case part == nil:
			return newReady(metav1.ConditionFalse, v1alpha1.ReasonStarting, "waiting for "+name)
		case part.Status == metav1.ConditionFalse:
			return newReady(metav1.ConditionFalse, part.Reason, part.Message)
		}
	}
	return nil
}

// firstProblem returns Ready for the first part of the desktop that has a problem, or nil.
// A problem is shown before what another part merely waits for.
func firstProblem(s *v1alpha1.VDISession) *metav1.Condition {
	if !meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionAssigned) {
		return nil
	}
	for _, name := range AgentConditions {
		if c := meta.FindStatusCondition(s.Status.Conditions, name); c != nil && c.Status == metav1.ConditionFalse && problems.Has(c.Reason) {
			ready := newReady(metav1.ConditionFalse, c.Reason, c.Message)
			if home := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionHomeReady); c.Reason == v1alpha1.ReasonUnschedulablePod && home != nil && home.Status == metav1.ConditionFalse {
				// Either may be the cause: no node fits a Pod whose claim is not bound,
				// and a claim that waits for its Pod's node is not bound before.
				ready.Message = home.Message + " " + c.Message
			}
			return ready
		}
	}
	return nil
}

// stopped returns Ready of a session whose desktop is not to run, or nil. A permanent
// failure comes first: it remains, whatever else happens.
func stopped(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) *metav1.Condition {
	failed := FailedPermanently(s)
	switch refused := refusedChange(s); {
	case failed != nil && refused != nil && Retrying(s):
		return newReady(metav1.ConditionFalse, refused.Reason, "it is not retried: "+refused.Message)
	case failed != nil:
		return newReady(metav1.ConditionFalse, failed.Reason, failed.Message)
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended && removalDenied(s) != nil:
		return newReady(metav1.ConditionFalse, v1alpha1.ReasonApplyFailed, "suspended, but the desktop still runs: "+removalDenied(s).Message)
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended:
		return newReady(metav1.ConditionFalse, v1alpha1.ReasonSuspended, "suspended: set spec.operatingMode to Running to continue")
	case t != nil && TimeOver(s, t):
		return newReady(metav1.ConditionFalse, v1alpha1.ReasonTimeExpired, ExpiredMessage(s, t))
	}
	return nil
}

// working returns Ready of a session that lacks nothing: True, unless its member is
// unreachable.
func working(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) *metav1.Condition {
	for _, name := range desktopConditions {
		if part := meta.FindStatusCondition(s.Status.Conditions, name); part.Status == metav1.ConditionUnknown {
			return newReady(metav1.ConditionUnknown, part.Reason, part.Message)
		}
	}
	if t != nil && expiring(s, t, now) {
		return newReady(metav1.ConditionTrue, v1alpha1.ReasonExpiringSoon, expiringMessage(s, t))
	}
	if pod := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionPodReady); pod.Reason == v1alpha1.ReasonIdleSoon {
		return newReady(metav1.ConditionTrue, v1alpha1.ReasonExpiringSoon, pod.Message)
	}
	return newReady(metav1.ConditionTrue, v1alpha1.ReasonReady, "the desktop is ready")
}

// ExpiryWarning returns the message of the expiry warning if this change is the first to
// show it.
func ExpiryWarning(before, after *v1alpha1.VDISession) (string, bool) {
	if ReasonOf(after, v1alpha1.ConditionReady) != v1alpha1.ReasonExpiringSoon || ReasonOf(before, v1alpha1.ConditionReady) == v1alpha1.ReasonExpiringSoon {
		return "", false
	}
	return meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionReady).Message, true
}

// terminating returns Ready of a deleted session: the stops it waits for, and what its
// member reported of them.
func terminating(s *v1alpha1.VDISession) *metav1.Condition {
	ready := newReady(metav1.ConditionFalse, v1alpha1.ReasonTerminating, "being deleted")
	left := Outstanding(s)
	if len(left) == 0 {
		return ready
	}
	names := make([]string, 0, len(left))
	for _, r := range left {
		names = append(names, r.ClusterName)
	}
	verb := "has"
	if len(names) > 1 {
		verb = "have"
	}
	ready.Message = fmt.Sprintf("being deleted: waiting until %s %s confirmed that nothing of it runs", strings.Join(names, " and "), verb)
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAssigned); c != nil && endReasons.Has(c.Reason) && c.Message != "" {
		ready.Message = "being deleted: " + c.Message
	}
	return ready
}

// endReasons are the reasons of Assigned that describe the end of an assignment.
var endReasons = sets.New(v1alpha1.ReasonPodTerminating, v1alpha1.ReasonMemberUnreachable, v1alpha1.ReasonWriteDenied)
