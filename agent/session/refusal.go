package session

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// isRefusal reports whether the API server understood the request and will
// have none of it, so that trying again at once is of no use: invalid,
// forbidden, over quota, of a kind that it does not know, denied by a webhook
// or one that does not answer.
func isRefusal(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code == 0 {
		return false
	}
	switch {
	case apierrors.IsInternalError(err):
		// The API server's own trouble passes, a webhook's may not.
		return strings.Contains(status.Status().Message, "failed calling webhook")
	case apierrors.IsConflict(err), apierrors.IsUnauthorized(err), apierrors.IsTooManyRequests(err),
		apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err):
		return false
	}
	return true
}

// problemOf says what a refusal to make or change a child means to people.
func problemOf(k kind, err error) observe.Problem {
	switch {
	case isQuota(err):
		return observe.Problem{Reason: api.ReasonQuotaExceeded, Message: fmt.Sprintf(
			"A quota of the namespace leaves no room for the %s, which is tried again: raise the quota or end other sessions: %v", k, err)}
	case k == kindRoute && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)):
		return *noRoutes(notServed)
	default:
		return observe.Problem{Reason: api.ReasonApplyFailed, Message: err.Error()}
	}
}

// isQuota: the API server has no code of its own for a quota that is used up.
func isQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}
