package render

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// DisruptionBudget keeps a drain of the node from ending a desktop that runs:
// whoever drains must end or move the session first.
//
// It is minAvailable, and a number: for maxUnavailable and for percentages the
// cluster asks the Pods' controller for its scale, and a SessionAssignment has
// none. A desktop that is not ready has no one at it, and may be evicted.
func DisruptionBudget(a *api.SessionAssignment) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: ownedMeta(a),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable:               ptr.To(intstr.FromInt32(1)),
			Selector:                   &metav1.LabelSelector{MatchLabels: Selector(a)},
			UnhealthyPodEvictionPolicy: ptr.To(policyv1.AlwaysAllow),
		},
	}
}
