package session

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
)

var services = childKind[*corev1.Service]{
	kind:       kindService,
	empty:      func() *corev1.Service { return &corev1.Service{} },
	stranger:   strangerTo[*corev1.Service],
	align:      alignService,
	expendable: true,
}

var ingresses = childKind[*networkingv1.Ingress]{
	kind:       kindIngress,
	empty:      func() *networkingv1.Ingress { return &networkingv1.Ingress{} },
	stranger:   strangerTo[*networkingv1.Ingress],
	align:      alignIngress,
	expendable: true,
}

// reach makes Service, and Ingress or HTTPRoute. They stay while a session is
// suspended, so that its URL does.
func (r *Reconciler) reach(ctx context.Context, p *pass) error {
	return errors.Join(r.service(ctx, p), r.ingress(ctx, p), r.route(ctx, p))
}

func (r *Reconciler) service(ctx context.Context, p *pass) (err error) {
	p.found.Service, p.found.ServiceProblem, err = keep(ctx, r, p, services, render.Service(p.assignment))
	return err
}

func (r *Reconciler) ingress(ctx context.Context, p *pass) (err error) {
	var want *networkingv1.Ingress
	if p.network.Gateway == nil {
		want = render.Ingress(p.assignment, p.network)
	}
	p.found.Ingress, p.found.IngressProblem, err = keep(ctx, r, p, ingresses, want)
	return err
}
