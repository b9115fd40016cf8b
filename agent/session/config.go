package session

import (
	"context"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
)

// config keeps the ConfigMap of the desktop's files.
func (r *Reconciler) config(ctx context.Context, p *pass) (err error) {
	p.found.Config, p.found.ConfigProblem, err = children.ConfigMaps.Keep(ctx, p.children, render.ConfigMap(p.assignment))
	p.configOwned = err == nil && p.found.ConfigProblem == nil
	return err
}
