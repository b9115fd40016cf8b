package observe

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Idleness is how near a desktop is to its idle timeout.
type Idleness int

const (
	// IdleUnknown means that it has no such limit, or nobody knows whether it is used.
	IdleUnknown Idleness = iota
	// InUse means that it was used lately.
	InUse
	// IdleSoon means that its user is to be warned.
	IdleSoon
	// IdleOver means that nobody has used it for its idle timeout.
	IdleOver
)

// IdleLimit is the idle timeout of a desktop; false if it has none.
func IdleLimit(a *api.SessionAssignment) (time.Duration, bool) {
	return limitOf(a.Spec.IdleTimeout)
}

// IdlenessOf is what so long a time without use means under a limit.
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

// IdleFailure is the failure of a desktop that nobody has used for its idle
// timeout.
func IdleFailure(a *api.SessionAssignment) *api.Failure {
	return &api.Failure{
		Attempt: a.Spec.Attempt,
		Reason:  api.ReasonIdleExpired,
		Message: fmt.Sprintf("Nobody has used the desktop for %s, its idle timeout: raise spec.attempt to start it again.", a.Spec.IdleTimeout),
	}
}

// TimeExpired is what PodReady says of a desktop that does not run because its
// timeout has passed.
func TimeExpired(a *api.SessionAssignment) (reason, message string) {
	return api.ReasonTimeExpired, fmt.Sprintf("The timeout of %s has passed: raise spec.timeout to go on.", a.Spec.Timeout)
}

// WarnIdle says in a status that a desktop which runs is about to be ended
// because nobody uses it.
func WarnIdle(s *api.SessionAssignmentStatus, a *api.SessionAssignment) {
	if !meta.IsStatusConditionTrue(s.Conditions, api.ConditionPodReady) {
		return
	}
	api.SetCondition(&s.Conditions, a.Generation, isTrue(api.ConditionPodReady, api.ReasonIdleSoon, fmt.Sprintf(
		"Nobody has used the desktop for long: it is ended after %s without use.", a.Spec.IdleTimeout)))
}
