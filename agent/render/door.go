package render

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// DoorName is the name of the Service of the member's door, and of the Ingress or HTTPRoute that leads to it.
const DoorName = "vdi-door"

// DoorIngress routes all hosts of a domain to the door. It returns nil if the member has a Gateway.
func DoorIngress(domain string, n Network, class string) *networkingv1.Ingress {
	if n.Gateway != nil {
		return nil
	}
	host := "*." + domain
	ing := &networkingv1.Ingress{ObjectMeta: doorMeta(n), Spec: ingressTo(host, DoorName)}
	profileOf(n.Controller).annotate(ing.Annotations, DoorName, false)
	ing.Spec.IngressClassName = optional(class)
	ing.Spec.TLS = ingressTLS(host, n.TLSSecretName)
	return ing
}

// DoorRoute routes all hosts of a domain from the member's Gateway to the door. It returns nil if the member has no
// Gateway.
func DoorRoute(domain string, n Network) *gatewayv1.HTTPRoute {
	if n.Gateway == nil {
		return nil
	}
	return &gatewayv1.HTTPRoute{ObjectMeta: doorMeta(n), Spec: routeTo(n.Gateway, "*."+domain, DoorName)}
}

func doorMeta(n Network) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: n.AgentNamespace, Name: DoorName,
		Labels: map[string]string{api.LabelManagedBy: api.ManagedBy}, Annotations: map[string]string{},
	}
}
