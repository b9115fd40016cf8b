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
	// InUse means that it was used lately.
	InUse
	// IdleSoon means that its user is to be warned.
	IdleSoon
	// IdleOver means that it was not used for its idle timeout.
	IdleOver
)

// IdlenessOf returns what a time without use means under a limit.
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

// IdleFailure returns the failure of a desktop that was not used for its idle timeout.
func IdleFailure(a *api.SessionAssignment) *api.Failure {
	return &api.Failure{
		Attempt: a.Spec.Attempt,
		Reason:  api.ReasonIdleExpired,
		Message: fmt.Sprintf("Nobody has used the desktop for %s, its idle timeout: raise spec.attempt to start it again.", a.Spec.IdleTimeout),
	}
}

// TimeExpired returns why there is no Pod of a desktop whose timeout has passed.
func TimeExpired(a *api.SessionAssignment) *Problem {
	return &Problem{Reason: api.ReasonTimeExpired, Message: fmt.Sprintf("The timeout of %s has passed: raise spec.timeout to go on.", a.Spec.Timeout)}
}

// WarnIdle warns in a status that a running desktop is about to be ended since it is not
// used.
func WarnIdle(s *api.SessionAssignmentStatus, a *api.SessionAssignment) {
	if !meta.IsStatusConditionTrue(s.Conditions, api.ConditionPodReady) {
		return
	}
	api.SetCondition(&s.Conditions, a.Generation, isTrue(api.ConditionPodReady, api.ReasonIdleSoon, fmt.Sprintf(
		"Nobody has used the desktop for long: it is ended after %s without use.", a.Spec.IdleTimeout)))
}

// IdleAfter is how long a desktop must not have been used until its status shows that.
const IdleAfter = 5 * time.Minute

// Use is what is known of a desktop's use.
type Use struct {
	// Known is set once its use was reported.
	Known bool
	// Since is when it was last used, by the member's clock, and zero for less than
	// IdleAfter.
	Since time.Time
}

// ShowIdle sets in a status since when a running desktop is not used. What an earlier
// process has written stands until there is a report. A period without use costs two
// writes: it is set once, and removed by the next use.
func ShowIdle(s *api.SessionAssignmentStatus, u Use, running bool) {
	switch {
	case !running, u.Known && u.Since.IsZero():
		s.IdleSince = nil
	case !u.Known:
	case s.IdleSince == nil || u.Since.Sub(s.IdleSince.Time).Abs() > clockStep:
		s.IdleSince = &metav1.Time{Time: u.Since.Truncate(time.Second)}
	}
}
