package session

import (
	"context"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
)

// config keeps the ConfigMap of the desktop's files.
func (r *Reconciler) config(ctx context.Context, p *pass) (err error) {
	p.Found.Config, p.Found.ConfigProblem, err = children.ConfigMaps.Keep(ctx, p.Set, render.ConfigMap(p.Assignment))
	return err
}
