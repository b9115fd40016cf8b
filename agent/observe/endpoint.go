package observe

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Endpoint is the condition EndpointReady: Service and Ingress are in place.
// Whether the desktop behind them answers is PodReady's to say.
func Endpoint(a *api.SessionAssignment, f Found) metav1.Condition {
	switch {
	case f.ServiceProblem != nil:
		return f.ServiceProblem.condition(api.ConditionEndpointReady)
	case f.IngressProblem != nil:
		return f.IngressProblem.condition(api.ConditionEndpointReady)
	case f.Service == nil:
		return isFalse(api.ConditionEndpointReady, api.ReasonEndpointPending, "The Service is not made yet.")
	case f.Ingress == nil:
		return isFalse(api.ConditionEndpointReady, api.ReasonEndpointPending, "The Ingress is not made yet.")
	case f.Service.DeletionTimestamp != nil || f.Ingress.DeletionTimestamp != nil:
		return isFalse(api.ConditionEndpointReady, api.ReasonEndpointPending,
			"Service or Ingress is being deleted, a new one is made when it is gone.")
	default:
		return isTrue(api.ConditionEndpointReady, api.ReasonEndpointReady,
			fmt.Sprintf("Service and Ingress of %s are in place.", a.Spec.Host))
	}
}
