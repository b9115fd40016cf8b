package observe

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestHome(t *testing.T) {
	cases := map[string]struct {
		a    *api.SessionAssignment
		f    Children
		want metav1.Condition
	}{
		"none":        {assignment(homeless), Children{}, yes(api.ReasonNoHome, "The desktop has no home.")},
		"not made":    {assignment(), Children{}, no(api.ReasonBinding, "The claim home-x of the home is not created yet.")},
		"bound":       {assignment(), Children{Home: pvc()}, yes(api.ReasonBound, "The claim home-x is bound.")},
		"unbound":     {assignment(), Children{Home: pvc(pendingClaim, fastClaim)}, no(api.ReasonBinding, "The claim home-x waits for a volume of storage class fast.")},
		"no class":    {assignment(), Children{Home: pvc(pendingClaim)}, no(api.ReasonBinding, "The claim home-x waits for a volume of the default storage class: if this lasts, the cluster may have none.")},
		"lost":        {assignment(), Children{Home: pvc(lostClaim)}, no(api.ReasonClaimLost, "The volume pv-7 of the home's claim home-x is gone: restore it, or delete the claim to begin with an empty home.")},
		"terminating": {assignment(), Children{Home: pvc(deletedClaim)}, yes(api.ReasonBound, "The claim home-x is being deleted: the home is lost when the desktop stops.")},
		"going":       {assignment(), Children{Home: pvc(pendingClaim, deletedClaim)}, no(api.ReasonBinding, "The claim home-x is being deleted, a new one is created when it is gone.")},
		"conflict":    {assignment(), Children{Home: pvc(), HomeProblem: &Problem{Reason: api.ReasonConflict, Message: "m"}}, no(api.ReasonConflict, "m")},
		"in use": {assignment(), Children{Home: pvc(), OtherUser: "web-2"}, no(api.ReasonHomeInUse,
			"The home is in use by web-2, whose Pod mounts the claim home-x: the desktop starts once that Pod is gone.")},
		"in use, and lost": {assignment(), Children{Home: pvc(lostClaim), OtherUser: "web-2"}, no(api.ReasonClaimLost, "The volume pv-7 of the home's claim home-x is gone: restore it, or delete the claim to begin with an empty home.")},
		"too small":        {assignment(), Children{Home: pvc(), HomeTooSmall: "The claim has 1Gi: no"}, yes(api.ReasonBoundTooSmall, "The claim has 1Gi: no.")},
		"over quota":       {assignment(), Children{HomeProblem: &Problem{Reason: api.ReasonQuotaExceeded, Message: "m"}}, no(api.ReasonQuotaExceeded, "m")},
		"suspended":        {assignment(suspended), Children{Home: pvc()}, yes(api.ReasonBound, "The claim home-x is bound.")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { check(t, api.ConditionHomeReady, Home(c.a, c.f), c.want) })
	}
}

func TestEndpoint(t *testing.T) {
	svc, ing := &corev1.Service{}, &networkingv1.Ingress{}
	terminating := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}
	problem := &Problem{Reason: api.ReasonApplyFailed, Message: "services is forbidden"}
	accepted := metav1.Condition{Type: "Accepted", Status: metav1.ConditionTrue}
	refused := metav1.Condition{Type: "Accepted", Status: metav1.ConditionFalse, Reason: "NotAllowedByListeners", Message: "No listener allows the namespace."}
	unresolved := metav1.Condition{Type: "ResolvedRefs", Status: metav1.ConditionFalse, Reason: "UnsupportedProtocol", Message: "no BackendTLSPolicy"}
	const inPlace = "Service and HTTPRoute of web.example.com are in place"
	const elsewhere = "The Gateway public does not route to the desktop ("
	cases := map[string]struct {
		f    Children
		want metav1.Condition
	}{
		"nothing":      {Children{}, no(api.ReasonEndpointPending, "The Service is not created yet.")},
		"no way in":    {Children{Service: svc}, no(api.ReasonEndpointPending, "The Ingress or HTTPRoute is not created yet.")},
		"both":         {Children{Service: svc, Ingress: ing}, yes(api.ReasonEndpointReady, "Service and Ingress of web.example.com are in place.")},
		"terminating":  {Children{Service: svc, Ingress: terminating}, no(api.ReasonEndpointPending, "Service, Ingress or HTTPRoute is being deleted, a new one is created when it is gone.")},
		"bad service":  {Children{Ingress: ing, ServiceProblem: problem}, no(api.ReasonApplyFailed, "services is forbidden")},
		"bad ingress":  {Children{Service: svc, IngressProblem: problem}, no(api.ReasonApplyFailed, "services is forbidden")},
		"bad route":    {Children{Service: svc, RouteProblem: problem}, no(api.ReasonApplyFailed, "services is forbidden")},
		"not isolated": {Children{Service: svc, Ingress: ing, PolicyProblem: problem}, no(api.ReasonApplyFailed, "services is forbidden")},
		"route":        {Children{Service: svc, Route: route()}, yes(api.ReasonEndpointReady, inPlace+", no Gateway has accepted the route yet.")},
		"accepted":     {Children{Service: svc, Route: route(accepted)}, yes(api.ReasonEndpointReady, inPlace+".")},
		"not accepted": {Children{Service: svc, Route: route(refused)}, no(api.ReasonEndpointPending,
			elsewhere+"NotAllowedByListeners: No listener allows the namespace): correct the Gateway, or what it requires.")},
		"not resolved": {Children{Service: svc, Route: route(accepted, unresolved)}, no(api.ReasonEndpointPending,
			elsewhere+"UnsupportedProtocol: no BackendTLSPolicy): correct the Gateway, or what it requires.")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { check(t, api.ConditionEndpointReady, Endpoint(assignment(), c.f), c.want) })
	}
}

// route with that status of the Gateway "public".
func route(conditions ...metav1.Condition) *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{}
	if len(conditions) > 0 {
		r.Status.Parents = []gatewayv1.RouteParentStatus{{ParentRef: gatewayv1.ParentReference{Name: "public"}, Conditions: conditions}}
	}
	return r
}
