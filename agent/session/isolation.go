package session

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// isolation is the effect of the NetworkPolicy on the Pod.
type isolation struct {
	// policy that the template requires; nil if it requires none.
	policy *networkingv1.NetworkPolicy
	// inForce is set if the policy is in place, so that a Pod may rely on it.
	inForce bool
}

// isolate keeps the NetworkPolicy, without which no Pod is created, and the
// PodDisruptionBudget. Desktops of the namespace share them: agent/retention removes those
// that no Pod uses. A desktop that must not run requires none.
func (r *Reconciler) isolate(ctx context.Context, p *pass) error {
	p.isolation.policy = render.NetworkPolicy(p.Assignment, p.network)
	if mustNotRun(p) {
		return nil
	}
	have, problem, policy := children.NetworkPolicies.Share(ctx, p.Set, p.isolation.policy)
	p.Found.PolicyProblem = problem
	p.isolation.inForce = policy == nil && problem == nil && p.isolation.satisfiedBy(have)
	var budget error
	_, p.Found.BudgetProblem, budget = children.DisruptionBudgets.Share(ctx, p.Set, render.DisruptionBudget(p.Assignment.Namespace))
	return errors.Join(policy, budget)
}

// satisfiedBy reports whether a Pod may rely on a policy: it is as required, and its removal is
// not due, which a Pod that is created now would not prevent.
func (i isolation) satisfiedBy(have *networkingv1.NetworkPolicy) bool {
	return i.policy == nil || have != nil && have.DeletionTimestamp == nil && have.Annotations[api.AnnotationLastUse] == "" &&
		equality.Semantic.DeepEqual(have.Spec, i.policy.Spec)
}

// apply has the policy select the rendered Pod, or that of the existing Pod until the policy is
// in force.
func (i isolation) apply(want, have *corev1.Pod) {
	if have == nil || i.inForce {
		render.Isolate(want, i.policy)
	} else if label, ok := have.Labels[render.LabelNetworkPolicy]; ok {
		want.Labels[render.LabelNetworkPolicy] = label
	}
}
