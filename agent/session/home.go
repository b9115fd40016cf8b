package session

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
)

var homes = childKind[*corev1.PersistentVolumeClaim]{
	kind:     kindHome,
	empty:    func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} },
	stranger: strangerHome,
	align:    alignHome,
}

// home makes the claim that the Pod will mount, before the Pod: a Pod must
// never mount a claim before it is known to be its session's.
func (r *Reconciler) home(ctx context.Context, p *pass) error {
	want := render.Home(p.assignment)
	if want == nil {
		p.homeIsOurs = true
		return nil
	}
	have, err := find(ctx, r, p, homes, want.Name)
	if err != nil {
		return err
	}
	p.found.Home, p.found.HomeProblem, err = ensure(ctx, r, p, homes, have, want)
	p.homeIsOurs = err == nil && p.found.HomeProblem == nil
	return err
}
