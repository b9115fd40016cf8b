package session

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
)

var configs = childKind[*corev1.ConfigMap]{
	kind:       kindConfig,
	empty:      func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
	stranger:   strangerTo[*corev1.ConfigMap],
	align:      alignConfig,
	expendable: true,
}

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

// config makes the ConfigMap that the Pod takes variables and files from.
func (r *Reconciler) config(ctx context.Context, p *pass) (err error) {
	p.found.Config, p.found.ConfigProblem, err = keep(ctx, r, p, configs, render.ConfigMap(p.assignment))
	p.configIsOurs = err == nil && p.found.ConfigProblem == nil
	return err
}

// guard makes what stands around the Pod before the Pod: whom it may talk to,
// without which none is made, and that nobody drains its node from under it
// without asking.
func (r *Reconciler) guard(ctx context.Context, p *pass) error {
	var policy, budget error
	p.found.Policy, p.found.PolicyProblem, policy = keep(ctx, r, p, policies, render.NetworkPolicy(p.assignment, p.network))
	p.found.Budget, p.found.BudgetProblem, budget = keep(ctx, r, p, budgets, render.DisruptionBudget(p.assignment))
	p.guarded = policy == nil && p.found.PolicyProblem == nil
	return errors.Join(policy, budget)
}
