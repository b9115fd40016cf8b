package session

import (
	"context"
	"errors"

	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
)

var policies = childKind[*networkingv1.NetworkPolicy]{
	kind:       kindPolicy,
	empty:      func() *networkingv1.NetworkPolicy { return &networkingv1.NetworkPolicy{} },
	stranger:   strangerTo[*networkingv1.NetworkPolicy],
	align:      alignPolicy,
	expendable: true,
}

var budgets = childKind[*policyv1.PodDisruptionBudget]{
	kind:       kindBudget,
	empty:      func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} },
	stranger:   strangerTo[*policyv1.PodDisruptionBudget],
	align:      alignBudget,
	expendable: true,
}

// isolate keeps the NetworkPolicy, without which no Pod is created, and the
// PodDisruptionBudget, which keeps a drain of the node from evicting the desktop.
func (r *Reconciler) isolate(ctx context.Context, p *pass) error {
	var policy, budget error
	p.found.Policy, p.found.PolicyProblem, policy = keep(ctx, r, p, policies, render.NetworkPolicy(p.assignment, p.network))
	p.found.Budget, p.found.BudgetProblem, budget = keep(ctx, r, p, budgets, render.DisruptionBudget(p.assignment))
	p.isolated = policy == nil && p.found.PolicyProblem == nil
	return errors.Join(policy, budget)
}
