package session

import (
	"context"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
)

// home keeps the claim that the Pod mounts, and checks that it is the session's before a Pod
// is created.
func (r *Reconciler) home(ctx context.Context, p *pass) error {
	want := render.Home(p.assignment)
	if want == nil {
		p.homeOwned = true
		return nil
	}
	var err error
	p.found.Home, p.found.HomeProblem, err = children.Homes.Share(ctx, p.children, want)
	p.homeOwned = err == nil && p.found.HomeProblem == nil
	if p.homeOwned {
		p.found.Home, p.found.HomeTooSmall, err = p.children.Grow(ctx, p.found.Home, want)
	}
	return err
}
