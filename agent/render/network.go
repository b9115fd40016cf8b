package render

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// servicePort is the port of every desktop's Service, whatever the desktop's.
const servicePort = 80

// Network is what rendering must know of the member besides the assignment.
type Network struct {
	// Gateway to make HTTPRoutes for; nil: Ingresses are made.
	Gateway *GatewayRef
	// Controller of the IngressClass in use (its spec.controller); empty: not
	// known.
	Controller string
	// TLSSecretName is the certificate of the hosts where the assignment names
	// none; empty: the gateway's own.
	TLSSecretName string
	// GatewayNamespaces are where the gateway lives, which alone may reach
	// desktops; the zero value: the namespaces with LabelGateway.
	GatewayNamespaces metav1.LabelSelector
	// AgentNamespace may reach desktops to ask whether they are used; empty: none.
	AgentNamespace string
}

// GatewayRef names a Gateway and, if given, one of its listeners.
type GatewayRef struct{ Namespace, Name, Section string }

// Service is the stable address of the desktop within the member.
func Service(a *api.SessionAssignment) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: ownedMeta(a)}
	protocol := "http"
	if isHTTPS(a) {
		protocol = "https"
		// Traefik takes this from the Service, not from the Ingress.
		svc.Annotations["traefik.ingress.kubernetes.io/service.serversscheme"] = protocol
	}
	svc.Spec = corev1.ServiceSpec{
		Type:     corev1.ServiceTypeClusterIP,
		Selector: Selector(a),
		Ports: []corev1.ServicePort{{
			Name:        PortName,
			Protocol:    corev1.ProtocolTCP,
			AppProtocol: ptr.To(protocol),
			Port:        servicePort,
			TargetPort:  intstr.FromString(PortName),
		}},
	}
	return svc
}

// Ingress leads the session's host to its Service.
func Ingress(a *api.SessionAssignment, n Network) *networkingv1.Ingress {
	ing := &networkingv1.Ingress{ObjectMeta: ownedMeta(a)}
	for key, value := range ingressAnnotations(n.Controller, isHTTPS(a), a.Name) {
		ing.Annotations[key] = value
	}
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: a.Name,
		Port: networkingv1.ServiceBackendPort{Name: PortName},
	}}
	ing.Spec = networkingv1.IngressSpec{
		IngressClassName: optional(a.Spec.Desktop.IngressClassName),
		Rules: []networkingv1.IngressRule{{
			Host: a.Spec.Host,
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{
					Path:     "/",
					PathType: ptr.To(networkingv1.PathTypePrefix),
					Backend:  backend,
				}},
			}},
		}},
	}
	if secret := orDefault(a.Spec.Desktop.TLSSecretName, n.TLSSecretName); secret != "" {
		ing.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{a.Spec.Host}, SecretName: secret}}
	}
	return ing
}

// HTTPRoute leads the session's host to its Service through a Gateway, whose
// listeners hold the certificates. Its requests have no time limit: a websocket
// is one request. A desktop that serves HTTPS needs a BackendTLSPolicy of the
// member's administrator besides: which authority to trust is his to say.
func HTTPRoute(a *api.SessionAssignment, n Network) *gatewayv1.HTTPRoute {
	parent := gatewayv1.ParentReference{
		Namespace: ptr.To(gatewayv1.Namespace(n.Gateway.Namespace)),
		Name:      gatewayv1.ObjectName(n.Gateway.Name),
	}
	if n.Gateway.Section != "" {
		parent.SectionName = ptr.To(gatewayv1.SectionName(n.Gateway.Section))
	}
	backend := gatewayv1.HTTPBackendRef{BackendRef: gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{
			Name: gatewayv1.ObjectName(a.Name),
			Port: ptr.To(gatewayv1.PortNumber(servicePort)),
		},
	}}
	route := &gatewayv1.HTTPRoute{ObjectMeta: ownedMeta(a)}
	route.Spec = gatewayv1.HTTPRouteSpec{
		CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{parent}},
		Hostnames:       []gatewayv1.Hostname{gatewayv1.Hostname(a.Spec.Host)},
		Rules: []gatewayv1.HTTPRouteRule{{
			BackendRefs: []gatewayv1.HTTPBackendRef{backend},
			Timeouts:    &gatewayv1.HTTPRouteTimeouts{Request: ptr.To(gatewayv1.Duration("0s"))},
		}},
	}
	return route
}

func isHTTPS(a *api.SessionAssignment) bool {
	return a.Spec.Desktop.Protocol == api.ProtocolHTTPS
}
