package render

import (
	"math"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// DisruptionBudget prevents a drain of a node from evicting any ready desktop of a namespace:
// its session must be ended or moved first.
//
// It sets minAvailable as the largest number: maxUnavailable and percentages require the scale
// subresource of the Pods' controller, which a SessionAssignment lacks.
func DisruptionBudget(namespace string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: sharedMeta(namespace, "desktops"),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(math.MaxInt32)),
			Selector: &metav1.LabelSelector{
				MatchLabels:      map[string]string{api.LabelManagedBy: api.ManagedBy},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: api.LabelAssignment, Operator: metav1.LabelSelectorOpExists}},
			},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}
