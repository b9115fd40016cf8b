package observe

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Endpoint is the condition EndpointReady: what leads to the desktop is in
// place, and what stands around it. Whether the desktop answers is PodReady's to
// say.
func Endpoint(a *api.SessionAssignment, f Found) metav1.Condition {
	for _, problem := range []*Problem{f.PolicyProblem, f.ServiceProblem, f.RouteProblem, f.IngressProblem, f.BudgetProblem} {
		if problem != nil {
			return problem.condition(api.ConditionEndpointReady)
		}
	}
	switch {
	case f.Service == nil:
		return pending("The Service is not made yet.")
	case f.Service.DeletionTimestamp != nil:
		return pending("The Service is being deleted, a new one is made when it is gone.")
	case f.Route != nil:
		return route(a, f.Route)
	case f.Ingress == nil:
		return pending("The Ingress is not made yet.")
	case f.Ingress.DeletionTimestamp != nil:
		return pending("The Ingress is being deleted, a new one is made when it is gone.")
	default:
		return isTrue(api.ConditionEndpointReady, api.ReasonEndpointReady,
			fmt.Sprintf("Service and Ingress of %s are in place.", a.Spec.Host))
	}
}

// route is in place unless a Gateway says that it will have none of it. A
// controller that says nothing is believed, as that of an Ingress is.
func route(a *api.SessionAssignment, r *gatewayv1.HTTPRoute) metav1.Condition {
	if r.DeletionTimestamp != nil {
		return pending("The HTTPRoute is being deleted, a new one is made when it is gone.")
	}
	for _, parent := range r.Status.Parents {
		for _, kind := range []gatewayv1.RouteConditionType{gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs} {
			c := meta.FindStatusCondition(parent.Conditions, string(kind))
			if c != nil && c.Status == metav1.ConditionFalse {
				return pending(fmt.Sprintf("The Gateway %s does not take the HTTPRoute: %s: %s", parent.ParentRef.Name, c.Reason, sentence(c.Message)))
			}
		}
	}
	return isTrue(api.ConditionEndpointReady, api.ReasonEndpointReady,
		fmt.Sprintf("Service and HTTPRoute of %s are in place.", a.Spec.Host))
}

func pending(message string) metav1.Condition {
	return isFalse(api.ConditionEndpointReady, api.ReasonEndpointPending, message)
}
