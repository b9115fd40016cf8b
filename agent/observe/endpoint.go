package observe

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Endpoint returns the condition EndpointReady: whether Service, Ingress or HTTPRoute, and
// NetworkPolicy are in place. Whether the desktop answers is in PodReady.
func Endpoint(a *api.SessionAssignment, f Children) metav1.Condition {
	if p := cmp.Or(f.ServiceProblem, f.IngressProblem, f.RouteProblem, f.PolicyProblem); p != nil {
		return p.condition(api.ConditionEndpointReady)
	}
	switch {
	case f.Service == nil:
		return endpointPending("The Service is not created yet.")
	case f.Door && f.Service.DeletionTimestamp == nil:
		return inPlace("The Service of %s is in place, and the door leads to the desktop.", a)
	case !f.Door && f.Ingress == nil && f.Route == nil:
		return endpointPending("The Ingress or HTTPRoute is not created yet.")
	case f.Service.DeletionTimestamp != nil,
		f.Ingress != nil && f.Ingress.DeletionTimestamp != nil,
		f.Route != nil && f.Route.DeletionTimestamp != nil:
		return endpointPending("Service, Ingress or HTTPRoute is being deleted, a new one is created when it is gone.")
	case f.Route != nil:
		return routeCondition(a, f.Route)
	default:
		return inPlace("Service and Ingress of %s are in place.", a)
	}
}

// routeCondition returns the condition of a route by its Gateway's. A route without one
// counts as in place, as does an Ingress, which has no conditions.
func routeCondition(a *api.SessionAssignment, route *gatewayv1.HTTPRoute) metav1.Condition {
	for i := range route.Status.Parents {
		parent := &route.Status.Parents[i]
		for _, kind := range []gatewayv1.RouteConditionType{gatewayv1.RouteConditionAccepted, gatewayv1.RouteConditionResolvedRefs} {
			c := meta.FindStatusCondition(parent.Conditions, string(kind))
			if c != nil && c.Status == metav1.ConditionFalse {
				return endpointPending(fmt.Sprintf("The Gateway %s does not route to the desktop (%s: %s): correct the Gateway, or what it requires.",
					parent.ParentRef.Name, c.Reason, cause(c.Message)))
			}
		}
	}
	if len(route.Status.Parents) == 0 {
		return inPlace("Service and HTTPRoute of %s are in place, no Gateway has accepted the route yet.", a)
	}
	return inPlace("Service and HTTPRoute of %s are in place.", a)
}

func inPlace(format string, a *api.SessionAssignment) metav1.Condition {
	return isTrue(api.ConditionEndpointReady, api.ReasonEndpointReady, fmt.Sprintf(format, a.Spec.Host))
}

func endpointPending(message string) metav1.Condition {
	return isFalse(api.ConditionEndpointReady, api.ReasonEndpointPending, message)
}
