package session

import (
	"context"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
)

// home keeps the claim that the Pod mounts, before the Pod: a Pod must never
// mount a claim before it is known to be its session's.
func (r *Reconciler) home(ctx context.Context, p *pass) error {
	want := render.Home(p.assignment)
	if want == nil {
		p.homeIsOurs = true
		return nil
	}
	have, err := children.Homes.Find(ctx, p.children, want.Name)
	if err != nil {
		return err
	}
	p.found.Home, p.found.HomeProblem, err = children.Homes.Ensure(ctx, p.children, have, want)
	p.homeIsOurs = err == nil && p.found.HomeProblem == nil
	if p.homeIsOurs {
		p.found.Home, p.found.HomeTooSmall, err = p.children.Grow(ctx, p.found.Home, want)
	}
	return err
}
