package session

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
)

var configs = childKind[*corev1.ConfigMap]{
	kind:       kindConfig,
	empty:      func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
	stranger:   strangerTo[*corev1.ConfigMap],
	align:      alignConfig,
	expendable: true,
}

// config keeps the ConfigMap from which the Pod takes variables and files.
func (r *Reconciler) config(ctx context.Context, p *pass) (err error) {
	p.found.Config, p.found.ConfigProblem, err = keep(ctx, r, p, configs, render.ConfigMap(p.assignment))
	p.configIsOurs = err == nil && p.found.ConfigProblem == nil
	return err
}
