package denied

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Is reports whether an API server denies a request, so that an immediate retry is
// useless: it is invalid, forbidden, over a quota, of a kind that the server does not
// have, denied by admission, or an admission webhook does not respond. Conflicts, existing
// names, timeouts and the server's own failures are not denials.
func Is(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch {
	case apierrors.IsInternalError(err):
		return webhookFailed(err)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsUnauthorized(err), apierrors.IsTooManyRequests(err),
		apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err):
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}

// IsQuota reports whether a ResourceQuota is exceeded, which has no status code of its own.
func IsQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// Explain returns the error of a denied request, and the remedy.
func Explain(err error) string {
	return fmt.Sprintf("%v (%s; it is retried)", err, remedy(err))
}

func remedy(err error) string {
	switch {
	case IsQuota(err):
		return "raise the quota of the namespace or end other sessions"
	case unauthorized(err):
		return "grant this permission: apply the Roles and bindings of the installation again"
	case webhookFailed(err):
		return "repair or remove the admission webhook that does not answer"
	case apierrors.IsRequestEntityTooLargeError(err):
		return "make the session or its template smaller"
	case meta.IsNoMatchError(err):
		return "install the missing CRDs"
	case apierrors.IsNotFound(err):
		return "restore what is missing"
	case admission(err):
		return "change the admission webhook or policy that denies it, or exempt vdi-fleet from it"
	}
	return "change the session, its template or the rule that does not allow it"
}

// unauthorized recognizes the authorizer's denial, whose text differs from that of admission.
func unauthorized(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " resource ")
}

func webhookFailed(err error) bool {
	return strings.Contains(err.Error(), "failed calling webhook")
}

func admission(err error) bool {
	text := err.Error()
	return strings.Contains(text, "denied the request") || strings.Contains(text, "ValidatingAdmissionPolicy") || apierrors.IsForbidden(err)
}
