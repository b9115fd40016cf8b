package observe

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Idleness is how near a desktop is to its idle timeout.
type Idleness int

const (
	// IdleUnknown means that it has no such limit, or its use is not known.
	IdleUnknown Idleness = iota
	// InUse means that it was used recently.
	InUse
	// IdleSoon means that its user is to be warned.
	IdleSoon
	// IdleOver means that it was idle for its idle timeout.
	IdleOver
)

// IdlenessOf returns the idleness after a time without use, under an idle timeout.
func IdlenessOf(idle, limit time.Duration) Idleness {
	switch {
	case limit <= 0:
		return IdleUnknown
	case idle >= limit:
		return IdleOver
	case idle >= limit-api.WarnBefore(limit):
		return IdleSoon
	default:
		return InUse
	}
}

// IdleFailure returns the failure of a desktop that was idle for its idle timeout.
func IdleFailure(a *api.SessionAssignment) *api.Failure {
	return &api.Failure{
		Attempt: a.Spec.Attempt,
		Reason:  api.ReasonIdleExpired,
		Message: fmt.Sprintf("The desktop was idle for %s, its idle timeout: raise spec.attempt to start it again.", a.Spec.IdleTimeout),
	}
}

// TimeExpired returns why there is no Pod of a desktop whose timeout has passed.
func TimeExpired(a *api.SessionAssignment) *Problem {
	return &Problem{Reason: api.ReasonTimeExpired, Message: fmt.Sprintf("The timeout of %s has passed: raise spec.timeout to go on.", a.Spec.Timeout)}
}

// WarnIdle warns in a status that a running desktop is about to be stopped because it is
// idle.
func WarnIdle(s *api.SessionAssignmentStatus, a *api.SessionAssignment) {
	if !meta.IsStatusConditionTrue(s.Conditions, api.ConditionPodReady) {
		return
	}
	api.SetCondition(&s.Conditions, a.Generation, isTrue(api.ConditionPodReady, api.ReasonIdleSoon, fmt.Sprintf(
		IdleWarning, a.Spec.IdleTimeout)))
}

// IdleWarning is the format of the warning before an idle timeout.
const IdleWarning = "The desktop is idle: it is stopped after %s without use."

// IdleAfter is how long a desktop must be unused before its status shows that.
const IdleAfter = 5 * time.Minute

// Use is the reported use of a desktop.
type Use struct {
	// Known is set once its use was reported.
	Known bool
	// Since is when it was last used, by the member's clock; zero if less than IdleAfter
	// ago.
	Since time.Time
}

// ShowIdle sets in a status since when a running desktop is idle. The value of an earlier
// process is kept until there is a report. An idle period costs two writes.
func ShowIdle(s *api.SessionAssignmentStatus, u Use, running bool) {
	switch {
	case !running, u.Known && u.Since.IsZero():
		s.IdleSince = nil
	case !u.Known:
	case s.IdleSince == nil || u.Since.Sub(s.IdleSince.Time).Abs() > clockStep:
		s.IdleSince = &metav1.Time{Time: u.Since.Truncate(time.Second)}
	}
}
