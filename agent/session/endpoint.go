package session

import (
	"context"
	"errors"
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	"github.com/vdi-fleet/vdi-fleet/proto/concurrent"
)

// +kubebuilder:rbac:groups=gateway.networking.k8s.io,roleName=vdi-agent-sessions,resources=httproutes,verbs=get;list;watch;create;patch;delete

// endpoint keeps Service, and Ingress or HTTPRoute, also while a session is suspended. It runs
// concurrently with the other steps, which no part of the endpoint depends on, and returns how
// to add its outcome to theirs.
func (r *Reconciler) endpoint(ctx context.Context, p *pass) (join func() error) {
	s, network := p.Fork(), p.network
	wait := concurrent.Begin(func() error {
		var service, ingress error
		s.Found.Service, s.Found.ServiceProblem, service = children.Services.Keep(ctx, s, render.Service(s.Assignment))
		s.Found.Ingress, s.Found.IngressProblem, ingress = children.Ingresses.Keep(ctx, s, render.Ingress(s.Assignment, network))
		return errors.Join(service, ingress, keepRoute(ctx, s, network))
	})
	return func() error {
		err := wait()
		p.Join(s)
		found := &s.Found
		p.Found.Service, p.Found.Ingress, p.Found.Route = found.Service, found.Ingress, found.Route
		p.Found.ServiceProblem, p.Found.IngressProblem, p.Found.RouteProblem = found.ServiceProblem, found.IngressProblem, found.RouteProblem
		return err
	}
}

// keepRoute keeps the HTTPRoute if the member has a Gateway, and otherwise removes it.
func keepRoute(ctx context.Context, s *children.Set, network render.Network) error {
	wanted := network.Gateway != nil && !network.Door
	problem, err := s.OpenRoutes(ctx, wanted)
	switch {
	case err != nil || problem != nil && !wanted:
		return err
	case problem != nil:
		s.Found.RouteProblem = problem
		s.RequeueWithin(children.RoutesRetry)
		return nil
	}
	s.Found.Route, s.Found.RouteProblem, err = children.HTTPRoutes.Keep(ctx, s, render.HTTPRoute(s.Assignment, network))
	return err
}

// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingressclasses,verbs=list;watch

// memberNetwork sets the member's parameters of rendering: the options, and the controller of
// the desktop's Ingress class.
func (r *Reconciler) memberNetwork(ctx context.Context, p *pass) error {
	p.network = r.Options.Network
	if r.Door != nil {
		inForce, err := r.Door.InForce(ctx)
		if err != nil {
			return fmt.Errorf("waiting for the state of the door: %w", err)
		}
		p.network.Door, p.Found.Door = inForce, inForce
	}
	if p.network.Gateway != nil || p.network.Door || p.network.Controller != "" {
		return nil
	}
	var classes networkingv1.IngressClassList
	if err := r.Client.List(ctx, &classes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing Ingress classes: %w", err)
	}
	p.network.Controller = render.ControllerOf(classes.Items, p.Assignment.Spec.Desktop.IngressClassName)
	return nil
}
