package session

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// parts are the conditions that Ready sums up, in the order in which a session
// comes by them.
var parts = []string{
	v1alpha1.ConditionAccepted,
	v1alpha1.ConditionScheduled,
	v1alpha1.ConditionAssigned,
	v1alpha1.ConditionHomeReady,
	v1alpha1.ConditionPodReady,
	v1alpha1.ConditionEndpointReady,
}

// summarise derives Ready, message, phase and the times from the other
// conditions. t is nil while the template is not known.
func summarise(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) {
	st := &s.Status
	st.ObservedGeneration = s.Generation
	ready := sum(s)
	if t != nil {
		ready = limitTime(s, t, ready, now)
	}
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

// sum is Ready before time limits: the first part that is not True says why.
func sum(s *v1alpha1.VDISession) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "the desktop is ready"}
	if !s.DeletionTimestamp.IsZero() {
		return terminating(s, c)
	}
	var unknown *metav1.Condition
	for _, name := range parts {
		if name == v1alpha1.ConditionAccepted && refusedChange(s) != nil {
			continue
		}
		part := meta.FindStatusCondition(s.Status.Conditions, name)
		switch {
		case part == nil:
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonStarting, "waiting for "+name
			return c
		case part.Status == metav1.ConditionFalse:
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, part.Reason, part.Message
			return c
		case part.Status == metav1.ConditionUnknown && unknown == nil:
			unknown = part
		}
	}
	if unknown != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, unknown.Reason, unknown.Message
	}
	return c
}

// terminating says what a deleted session still waits for.
func terminating(s *v1alpha1.VDISession, c metav1.Condition) metav1.Condition {
	c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonTerminating, "being deleted"
	for _, r := range outstanding(s) {
		c.Message = fmt.Sprintf("being deleted: waiting until %s has confirmed that nothing of it runs", r.ClusterName)
	}
	return c
}

// limitTime sets the expiration and, once it has passed, overrides Ready.
func limitTime(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, ready metav1.Condition, now time.Time) metav1.Condition {
	end, limited := expiry(s, t)
	s.Status.ExpirationTime = nil
	if !limited {
		return ready
	}
	at := seconds(end)
	s.Status.ExpirationTime = &at
	if now.Before(end) || !s.DeletionTimestamp.IsZero() {
		return ready
	}
	ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonTimeExpired
	ready.Message = fmt.Sprintf("its time of %s is over: raise spec.timeout to go on, or delete it", effectiveTimeout(s, t))
	return ready
}

// seconds is a time as the API server keeps it: what is written must equal what
// is read, or each reconcile would find a difference.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t).Rfc3339Copy() }

// outstanding are the placements of a session of which no stop is confirmed:
// where it is placed, and where it was.
func outstanding(s *v1alpha1.VDISession) []v1alpha1.Release {
	out := append([]v1alpha1.Release(nil), s.Status.Releasing...)
	if p := s.Status.Placement; p != nil {
		out = append(out, v1alpha1.Release{ClusterName: p.ClusterName, ClusterUID: p.ClusterUID, Epoch: p.Epoch})
	}
	return out
}
