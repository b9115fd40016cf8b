package session

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// problemOf says what a refusal to make or change a child means to people.
func problemOf(k kind, err error) observe.Problem {
	switch {
	case denied.IsQuota(err):
		return observe.Problem{Reason: api.ReasonQuotaExceeded, Message: fmt.Sprintf(
			"A quota of the namespace leaves no room for the %s, which is tried again: raise the quota or end other sessions: %v", k, err)}
	case k == kindRoute && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)):
		return *noRoutes(notServed)
	default:
		return observe.Problem{Reason: api.ReasonApplyFailed, Message: denied.Explain(err)}
	}
}
