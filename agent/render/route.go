package render

import (
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// noTimeout disables the Gateway API's timeout: a desktop's websocket is one request that
// lasts as long as its user is connected.
const noTimeout gatewayv1.Duration = "0s"

// HTTPRoute routes the session's host from the member's Gateway to its Service. It returns
// nil if the member has no Gateway.
//
// The certificate is the Gateway's. For a desktop that serves HTTPS, as the Service's port
// declares, the Gateway also requires a BackendTLSPolicy with the CA of the desktop's
// certificate, which the administrator must create. Without it the Gateway rejects the
// Service, and the route's condition ResolvedRefs has the reason.
func HTTPRoute(a *api.SessionAssignment, n Network) *gatewayv1.HTTPRoute {
	if n.Gateway == nil {
		return nil
	}
	route := &gatewayv1.HTTPRoute{ObjectMeta: ownedMeta(a)}
	parent := gatewayv1.ParentReference{
		Group:     ptr.To[gatewayv1.Group](gatewayv1.GroupName),
		Kind:      ptr.To[gatewayv1.Kind]("Gateway"),
		Namespace: ptr.To(gatewayv1.Namespace(n.Gateway.Namespace)),
		Name:      gatewayv1.ObjectName(n.Gateway.Name),
	}
	if n.Gateway.Section != "" {
		parent.SectionName = ptr.To(gatewayv1.SectionName(n.Gateway.Section))
	}
	route.Spec = gatewayv1.HTTPRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{parent}},
		Hostnames:       []gatewayv1.Hostname{gatewayv1.Hostname(a.Spec.Host)},
		Rules: []gatewayv1.HTTPRouteRule{{
			Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{
				Type: ptr.To(gatewayv1.PathMatchPathPrefix), Value: ptr.To("/"),
			}}},
			BackendRefs: []gatewayv1.HTTPBackendRef{backendRef(a)},
			Timeouts:    &gatewayv1.HTTPRouteTimeouts{Request: ptr.To(noTimeout), BackendRequest: ptr.To(noTimeout)},
		}},
	}
	return route
}

// backendRef returns a reference to the Service with all fields that the API server defaults.
func backendRef(a *api.SessionAssignment) gatewayv1.HTTPBackendRef {
	return gatewayv1.HTTPBackendRef{BackendRef: gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{
			Group: ptr.To[gatewayv1.Group](""),
			Kind:  ptr.To[gatewayv1.Kind]("Service"),
			Name:  gatewayv1.ObjectName(a.Name),
			Port:  ptr.To(gatewayv1.PortNumber(servicePort)),
		},
		Weight: ptr.To[int32](1),
	}}
}
