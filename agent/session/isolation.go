package session

import (
	"context"
	"errors"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
)

// isolate keeps the NetworkPolicy, without which no Pod is created, and the
// PodDisruptionBudget.
func (r *Reconciler) isolate(ctx context.Context, p *pass) error {
	var policy, budget error
	_, p.found.PolicyProblem, policy = children.NetworkPolicies.Keep(ctx, p.children, render.NetworkPolicy(p.assignment, p.network))
	_, p.found.BudgetProblem, budget = children.DisruptionBudgets.Keep(ctx, p.children, render.DisruptionBudget(p.assignment))
	p.isolated = policy == nil && p.found.PolicyProblem == nil
	return errors.Join(policy, budget)
}
