package retention

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,roleName=vdi-agent-sessions,resources=networkpolicies,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups=policy,roleName=vdi-agent-sessions,resources=poddisruptionbudgets,verbs=get;list;watch;patch;delete

// NetworkPolicies returns the reconciler of NetworkPolicies, and disruptionBudgets that of
// PodDisruptionBudgets.
func NetworkPolicies(options Options) *Reconciler {
	return shared(options, "retention-networkpolicy", func() client.Object { return &networkingv1.NetworkPolicy{} },
		func(o client.Object) *metav1.LabelSelector { return &o.(*networkingv1.NetworkPolicy).Spec.PodSelector })
}

func disruptionBudgets(options Options) *Reconciler {
	return shared(options, "retention-poddisruptionbudget", func() client.Object { return &policyv1.PodDisruptionBudget{} },
		func(o client.Object) *metav1.LabelSelector { return o.(*policyv1.PodDisruptionBudget).Spec.Selector })
}

// shared returns the reconciler of objects that the desktops of a namespace share: see
// agent/session, which removes the mark before it creates a Pod, so that the deletion fails.
func shared(options Options, name string, empty func() client.Object, selector func(client.Object) *metav1.LabelSelector) *Reconciler {
	return &Reconciler{Options: options, kind: kind{
		name:      name,
		empty:     empty,
		keptUntil: func(client.Object) (time.Time, bool) { return time.Time{}, true },
		inUse: func(ctx context.Context, from client.Reader, o client.Object) (bool, error) {
			return selectsPods(ctx, from, o, selector(o))
		},
		recheck:  options.UnusedFor,
		marks:    true,
		wait:     options.UnusedFor,
		describe: func(o client.Object) string { return o.GetName() + ", which no desktop uses" },
		deleted: func(ctx context.Context, o client.Object) {
			log.FromContext(ctx).V(1).Info("Deleted an object that no desktop uses", "name", o.GetName())
		},
	}}
}

// selectsPods reports whether the selector of an object selects a Pod.
func selectsPods(ctx context.Context, from client.Reader, o client.Object, selects *metav1.LabelSelector) (bool, error) {
	selector, err := metav1.LabelSelectorAsSelector(selects)
	if err != nil {
		return false, fmt.Errorf("reading the selector of %s: %w", o.GetName(), err)
	}
	var pods corev1.PodList
	err = from.List(ctx, &pods, client.InNamespace(o.GetNamespace()), client.MatchingLabelsSelector{Selector: selector},
		client.Limit(1), client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("listing the Pods that %s selects: %w", o.GetName(), err)
	}
	return len(pods.Items) > 0, nil
}
