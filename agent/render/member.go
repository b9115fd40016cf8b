package render

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Network has the member's parameters of rendering.
type Network struct {
	// Gateway of HTTPRoutes. Without one, Ingresses are rendered.
	Gateway *GatewayRef
	// Controller is IngressClass.spec.controller of the class in use; empty if not known.
	Controller string
	// TLSSecretName of Ingresses whose assignment names none; empty for the controller's
	// default certificate.
	TLSSecretName string
	// GatewayNamespaces selects the namespaces from which desktops may be reached; by
	// default those with LabelGateway.
	GatewayNamespaces metav1.LabelSelector
	// AgentNamespace, if it is set, is the namespace of agent and door. The agent reaches desktops that report
	// their activity.
	AgentNamespace string
	// Door is set if the member's door leads browsers to desktops: these have neither Ingress nor HTTPRoute of their
	// own, and are reached from the door's namespace alone.
	Door bool
	// LeasePort is the agent's port for guards and gates, if there are any.
	LeasePort int32
}

// GatewayRef names a listener of a Gateway.
type GatewayRef struct {
	Namespace, Name string
	// Section is the listener; by default any that matches.
	Section string
}

// gateways selects the namespaces from which desktops may be reached.
func (n Network) gateways() *metav1.LabelSelector {
	if len(n.GatewayNamespaces.MatchLabels)+len(n.GatewayNamespaces.MatchExpressions) == 0 {
		return &metav1.LabelSelector{MatchLabels: map[string]string{api.LabelGateway: "true"}}
	}
	return n.GatewayNamespaces.DeepCopy()
}
