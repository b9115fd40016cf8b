package session

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
)

var services = childKind[*corev1.Service]{
	kind:     kindService,
	empty:    func() *corev1.Service { return &corev1.Service{} },
	stranger: strangerTo[*corev1.Service],
	align:    alignService,
}

var ingresses = childKind[*networkingv1.Ingress]{
	kind:     kindIngress,
	empty:    func() *networkingv1.Ingress { return &networkingv1.Ingress{} },
	stranger: strangerTo[*networkingv1.Ingress],
	align:    alignIngress,
}

// network makes Service and Ingress. They stay while a session is suspended,
// so that its URL does.
func (r *Reconciler) network(ctx context.Context, p *pass) error {
	return errors.Join(r.service(ctx, p), r.ingress(ctx, p))
}

func (r *Reconciler) service(ctx context.Context, p *pass) error {
	want := render.Service(p.assignment)
	have, err := find(ctx, r, p, services, want.Name)
	if err != nil {
		return err
	}
	p.found.Service, p.found.ServiceProblem, err = ensure(ctx, r, p, services, have, want)
	return err
}

func (r *Reconciler) ingress(ctx context.Context, p *pass) error {
	want := render.Ingress(p.assignment)
	have, err := find(ctx, r, p, ingresses, want.Name)
	if err != nil {
		return err
	}
	p.found.Ingress, p.found.IngressProblem, err = ensure(ctx, r, p, ingresses, have, want)
	return err
}
