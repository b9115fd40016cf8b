package session

import (
	"context"
	"errors"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
)

// +kubebuilder:rbac:groups=gateway.networking.k8s.io,roleName=vdi-agent-sessions,resources=httproutes,verbs=get;list;watch;create;patch;delete

// endpoint keeps Service, and Ingress or HTTPRoute, also while a session is suspended.
func (r *Reconciler) endpoint(ctx context.Context, p *pass) error {
	var service, ingress error
	p.Found.Service, p.Found.ServiceProblem, service = children.Services.Keep(ctx, p.Set, render.Service(p.Assignment))
	p.Found.Ingress, p.Found.IngressProblem, ingress = children.Ingresses.Keep(ctx, p.Set, render.Ingress(p.Assignment, p.network))
	return errors.Join(service, ingress, r.route(ctx, p))
}

// route keeps the HTTPRoute if the member has a Gateway, and otherwise removes it.
func (r *Reconciler) route(ctx context.Context, p *pass) error {
	wanted := p.network.Gateway != nil
	problem, err := p.OpenRoutes(ctx, wanted)
	switch {
	case err != nil || problem != nil && !wanted:
		return err
	case problem != nil:
		p.Found.RouteProblem = problem
		p.RequeueWithin(children.RoutesRetry)
		return nil
	}
	p.Found.Route, p.Found.RouteProblem, err = children.HTTPRoutes.Keep(ctx, p.Set, render.HTTPRoute(p.Assignment, p.network))
	return err
}

// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingressclasses,verbs=list;watch

// memberNetwork sets the member's parameters of rendering: the options, and the controller of
// the desktop's Ingress class.
func (r *Reconciler) memberNetwork(ctx context.Context, p *pass) error {
	p.network = r.Options.Network
	if p.network.Gateway != nil || p.network.Controller != "" {
		return nil
	}
	var classes networkingv1.IngressClassList
	if err := r.Client.List(ctx, &classes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Ingress classes: %w", err)
	}
	p.network.Controller = controllerOf(classes.Items, p.Assignment.Spec.Desktop.IngressClassName)
	return nil
}

// controllerOf returns the controller of the class, by default that of the default class, and
// "" if it is not known.
func controllerOf(classes []networkingv1.IngressClass, name string) string {
	for i := range classes {
		class := &classes[i]
		if class.Name == name || name == "" && class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return class.Spec.Controller
		}
	}
	return ""
}
