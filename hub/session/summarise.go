package session

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// agents are the conditions that the agent is the writer of.
var agents = []string{
	v1alpha1.ConditionHomeReady,
	v1alpha1.ConditionPodReady,
	v1alpha1.ConditionEndpointReady,
}

// Ready sums up these in the order in which a session comes by them: those that
// give it a place, and then, unless its desktop is not to run at all, those that
// tell how far it is.
var (
	placing = []string{v1alpha1.ConditionAccepted, v1alpha1.ConditionScheduled}
	running = append([]string{v1alpha1.ConditionAssigned}, agents...)
)

// summarise derives Ready, message, phase and the times from the other
// conditions. t is nil while the template is not known.
func summarise(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) {
	st := &s.Status
	st.ObservedGeneration = s.Generation
	if t != nil && s.DeletionTimestamp.IsZero() {
		showExpiration(s, t)
	}
	showGuard(s)
	ready := sum(s, t, now)
	v1alpha1.SetCondition(&st.Conditions, s.Generation, ready)
	st.Phase = v1alpha1.PhaseOf(st.Conditions, !s.DeletionTimestamp.IsZero(), s.Spec.OperatingMode)
	st.Message = ready.Message
	if ready.Status == metav1.ConditionTrue {
		st.Message = ""
	}
	if refused := refusedChange(s); refused != nil && st.Message == "" {
		st.Message = refused.Message
	}
}

// refusedChange is the condition Accepted of a session that is placed and of
// which a later change was refused: it goes on as it was.
func refusedChange(s *v1alpha1.VDISession) *metav1.Condition {
	accepted := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAccepted)
	if accepted == nil || accepted.Status != metav1.ConditionFalse || !meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionScheduled) {
		return nil
	}
	return accepted
}

// readyOf is the condition Ready with what another says.
func readyOf(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message}
}

// sum is Ready: the first part that is not True says why it is not.
func sum(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) metav1.Condition {
	if !s.DeletionTimestamp.IsZero() {
		return terminating(s)
	}
	if missing := firstMissing(s, placing); missing != nil {
		return *missing
	}
	if still := resting(s, t); still != nil {
		return *still
	}
	if lost := awaiting(s); lost != nil {
		return *lost
	}
	if trouble := firstTrouble(s); trouble != nil {
		return *trouble
	}
	if missing := firstMissing(s, running); missing != nil {
		return *missing
	}
	return working(s, t, now)
}

// firstMissing is Ready where one of these conditions is not there or False;
// nil: none is.
func firstMissing(s *v1alpha1.VDISession, names []string) *metav1.Condition {
	for _, name := range names {
		if name == v1alpha1.ConditionAccepted && refusedChange(s) != nil {
			continue
		}
		part := meta.FindStatusCondition(s.Status.Conditions, name)
		var ready metav1.Condition
		switch {
		case part == nil:
			ready = readyOf(metav1.ConditionFalse, v1alpha1.ReasonStarting, "waiting for "+name)
		case part.Status == metav1.ConditionFalse:
			ready = readyOf(metav1.ConditionFalse, part.Reason, part.Message)
		default:
			continue
		}
		return &ready
	}
	return nil
}

// firstTrouble is Ready where a part of the desktop says that something is wrong,
// which it says before what another part merely waits for; nil: none does.
func firstTrouble(s *v1alpha1.VDISession) *metav1.Condition {
	if !meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionAssigned) {
		return nil
	}
	for _, name := range agents {
		if c := meta.FindStatusCondition(s.Status.Conditions, name); c != nil && c.Status == metav1.ConditionFalse && telling(c.Reason) {
			ready := readyOf(metav1.ConditionFalse, c.Reason, c.Message)
			if home := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionHomeReady); c.Reason == v1alpha1.ReasonUnschedulablePod && home != nil && home.Status == metav1.ConditionFalse {
				// Either may be the cause: no node fits a Pod whose claim is not bound,
				// and a claim that waits for its Pod's node is not bound before.
				ready.Message = home.Message + " " + c.Message
			}
			return &ready
		}
	}
	return nil
}

// resting is Ready of a session whose desktop is not to run; nil: it is. That
// it was given up is told first: it is so whatever becomes of the rest.
func resting(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) *metav1.Condition {
	var ready metav1.Condition
	failed := givenUp(s)
	switch refused := refusedChange(s); {
	case failed != nil && refused != nil && retrying(s):
		ready = readyOf(metav1.ConditionFalse, refused.Reason, "it is not tried again: "+refused.Message)
	case failed != nil:
		ready = readyOf(metav1.ConditionFalse, failed.Reason, failed.Message)
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended && stopDenied(s) != nil:
		ready = readyOf(metav1.ConditionFalse, v1alpha1.ReasonApplyFailed, "suspended, but the desktop still runs: "+stopDenied(s).Message)
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended:
		ready = readyOf(metav1.ConditionFalse, v1alpha1.ReasonSuspended, "suspended: set spec.operatingMode to Running to go on")
	case t != nil && timeOver(s, t):
		ready = readyOf(metav1.ConditionFalse, v1alpha1.ReasonTimeExpired, expiredMessage(s, t))
	default:
		return nil
	}
	return &ready
}

// stopDenied is the condition PodReady of a session whose member's API server denies
// the removal of the Pod; nil: it does not.
func stopDenied(s *v1alpha1.VDISession) *metav1.Condition {
	pod := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionPodReady)
	if pod == nil || pod.Reason != v1alpha1.ReasonApplyFailed {
		return nil
	}
	return pod
}

// working is Ready of a session that lacks nothing: True, unless its member is
// away.
func working(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) metav1.Condition {
	for _, name := range running {
		if part := meta.FindStatusCondition(s.Status.Conditions, name); part.Status == metav1.ConditionUnknown {
			return readyOf(metav1.ConditionUnknown, part.Reason, part.Message)
		}
	}
	if t != nil && expiring(s, t, now) {
		return readyOf(metav1.ConditionTrue, v1alpha1.ReasonExpiringSoon, expiringMessage(s, t))
	}
	if pod := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionPodReady); pod.Reason == v1alpha1.ReasonIdleSoon {
		return readyOf(metav1.ConditionTrue, v1alpha1.ReasonExpiringSoon, pod.Message)
	}
	return readyOf(metav1.ConditionTrue, v1alpha1.ReasonReady, "the desktop is ready")
}

// warned is whether a session's user is to be warned of its end, who was not
// before, and with what words.
func warned(before, after *v1alpha1.VDISession) (string, bool) {
	soon := func(s *v1alpha1.VDISession) *metav1.Condition {
		if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == v1alpha1.ReasonExpiringSoon {
			return c
		}
		return nil
	}
	c := soon(after)
	if c == nil || soon(before) != nil {
		return "", false
	}
	return c.Message, true
}

// terminating says what a deleted session still waits for: in the words of its
// member, where that has said any.
func terminating(s *v1alpha1.VDISession) metav1.Condition {
	ready := readyOf(metav1.ConditionFalse, v1alpha1.ReasonTerminating, "being deleted")
	left := outstanding(s)
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
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionAssigned); c != nil && leaving(c.Reason) && c.Message != "" {
		ready.Message = "being deleted: " + c.Message
	}
	return ready
}

// leaving are the reasons with which Assigned tells of the end of an assignment.
func leaving(reason string) bool {
	return reason == v1alpha1.ReasonPodTerminating || reason == v1alpha1.ReasonMemberUnreachable || reason == v1alpha1.ReasonWriteDenied
}

// seconds is a time as the API server keeps it: what is written must equal what
// is read, or each reconcile would find a difference.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t).Rfc3339Copy() }

// outstanding are the placements of a session of which no stop is confirmed:
// where it is placed, and where it was.
func outstanding(s *v1alpha1.VDISession) []v1alpha1.Release {
	out := append([]v1alpha1.Release(nil), s.Status.Releasing...)
	if p := s.Status.Placement; p != nil {
		out = append(out, v1alpha1.Release{ClusterName: p.ClusterName, ClusterUID: p.ClusterUID, Policy: p.Policy, Epoch: p.Epoch})
	}
	return out
}
