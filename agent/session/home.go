package session

import (
	"context"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
)

// home keeps the claim that the Pod mounts, if any, and checks that it is the session's before
// a Pod is created.
func (r *Reconciler) home(ctx context.Context, p *pass) (err error) {
	want := render.Home(p.Assignment)
	p.Found.Home, p.Found.HomeProblem, err = children.Homes.Share(ctx, p.Set, want)
	if err == nil && p.Found.HomeProblem == nil {
		p.Found.Home, p.Found.HomeTooSmall, err = p.Grow(ctx, p.Found.Home, want)
	}
	return err
}
