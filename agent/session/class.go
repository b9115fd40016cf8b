package session

import (
	"context"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingressclasses,verbs=list;watch

// surroundings is what rendering must know of the member: what the options say,
// and whose the Ingress class of this desktop is.
func (r *Reconciler) surroundings(ctx context.Context, p *pass) error {
	p.network = r.Options.Network
	if p.network.Gateway != nil || p.network.Controller != "" {
		return nil
	}
	var classes networkingv1.IngressClassList
	if err := r.Client.List(ctx, &classes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Ingress classes: %w", err)
	}
	p.network.Controller = controllerOf(classes.Items, p.assignment.Spec.Desktop.IngressClassName)
	return nil
}

// controllerOf is the controller of the class, or of the default one where the
// desktop names none; empty if it is not known, which asks for no annotations
// of any controller's.
func controllerOf(classes []networkingv1.IngressClass, name string) string {
	for i := range classes {
		class := &classes[i]
		if class.Name == name || name == "" && class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return class.Spec.Controller
		}
	}
	return ""
}
