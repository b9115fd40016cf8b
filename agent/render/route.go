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
// nil if the member has no Gateway, or a door.
//
// The certificate is the Gateway's. For a desktop that serves HTTPS, as the Service's port
// declares, the Gateway also requires a BackendTLSPolicy with the CA of the desktop's
// certificate, which the administrator must create. Without it the Gateway rejects the
// Service, and the route's condition ResolvedRefs has the reason.
func HTTPRoute(a *api.SessionAssignment, n Network) *gatewayv1.HTTPRoute {
	if n.Gateway == nil || n.Door {
		return nil
	}
	return &gatewayv1.HTTPRoute{ObjectMeta: ownedMeta(a), Spec: routeTo(n.Gateway, a.Spec.Host, a.Name)}
}

// routeTo routes a host from a Gateway to a Service.
func routeTo(gateway *GatewayRef, host, service string) gatewayv1.HTTPRouteSpec {
	parent := gatewayv1.ParentReference{
		Group:     ptr.To[gatewayv1.Group](gatewayv1.GroupName),
		Kind:      ptr.To[gatewayv1.Kind]("Gateway"),
		Namespace: ptr.To(gatewayv1.Namespace(gateway.Namespace)),
		Name:      gatewayv1.ObjectName(gateway.Name),
	}
	if gateway.Section != "" {
		parent.SectionName = ptr.To(gatewayv1.SectionName(gateway.Section))
	}
	return gatewayv1.HTTPRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{parent}},
		Hostnames:       []gatewayv1.Hostname{gatewayv1.Hostname(host)},
		Rules: []gatewayv1.HTTPRouteRule{{
			Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{
				Type: ptr.To(gatewayv1.PathMatchPathPrefix), Value: ptr.To("/"),
			}}},
			BackendRefs: []gatewayv1.HTTPBackendRef{backendRef(service)},
			Timeouts:    &gatewayv1.HTTPRouteTimeouts{Request: ptr.To(noTimeout), BackendRequest: ptr.To(noTimeout)},
		}},
	}
}

// backendRef returns a reference to a Service with all fields that the API server defaults.
func backendRef(service string) gatewayv1.HTTPBackendRef {
	return gatewayv1.HTTPBackendRef{BackendRef: gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{
			Group: ptr.To[gatewayv1.Group](""),
			Kind:  ptr.To[gatewayv1.Kind]("Service"),
			Name:  gatewayv1.ObjectName(service),
			Port:  ptr.To(gatewayv1.PortNumber(servicePort)),
		},
		Weight: ptr.To[int32](1),
	}}
}
