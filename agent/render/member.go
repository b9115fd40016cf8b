package render

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Network is what rendering must know of the member.
type Network struct {
	// Gateway of HTTPRoutes. Without one Ingresses are rendered.
	Gateway *GatewayRef
	// Controller of the Ingress class in use, as IngressClass.spec.controller
	// has it; empty: not known.
	Controller string
	// TLSSecretName of Ingresses whose assignment names none; empty: the
	// gateway's own certificate.
	TLSSecretName string
	// GatewayNamespaces are the namespaces whence desktops may be reached; the
	// zero value selects those with LabelGateway, and never all.
	GatewayNamespaces metav1.LabelSelector
	// AgentNamespace may reach desktops that report their activity, if it is set.
	AgentNamespace string
	// LeasePort is where the agent answers guards and gates, if there are any.
	LeasePort int32
}

// GatewayRef names a listener of a Gateway.
type GatewayRef struct {
	Namespace, Name string
	// Section is the listener. Without one any that fits is used.
	Section string
}

// gateways selects the namespaces whence desktops may be reached.
func (n Network) gateways() *metav1.LabelSelector {
	if len(n.GatewayNamespaces.MatchLabels)+len(n.GatewayNamespaces.MatchExpressions) == 0 {
		return &metav1.LabelSelector{MatchLabels: map[string]string{api.LabelGateway: "true"}}
	}
	return n.GatewayNamespaces.DeepCopy()
}
