package children

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// problemOf returns the problem of a child whose write the API server denied.
func problemOf(kind string, err error) observe.Problem {
	switch {
	case denied.IsQuota(err):
		return observe.Problem{Reason: api.ReasonQuotaExceeded, Message: fmt.Sprintf(
			"A quota of the namespace leaves no capacity for the %s, which is retried: raise the quota or end other sessions: %v", kind, err)}
	case kind == nameRoute && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)):
		return *noRoutes(notServed)
	default:
		return observe.Problem{Reason: api.ReasonApplyFailed, Message: denied.Explain(err)}
	}
}
