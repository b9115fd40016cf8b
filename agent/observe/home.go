package observe

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Home returns the condition HomeReady.
func Home(a *api.SessionAssignment, f Children) metav1.Condition {
	home := a.Spec.Desktop.Home
	switch {
	case home.Mode == api.HomeNone || home.Mode == "":
		return isTrue(api.ConditionHomeReady, api.ReasonNoHome, "The desktop has no home.")
	case f.HomeProblem != nil:
		return f.HomeProblem.condition(api.ConditionHomeReady)
	case f.Home == nil:
		return binding("The claim %s of the home is not created yet.", home.ClaimName)
	case isLost(f.Home):
		return isFalse(api.ConditionHomeReady, api.ReasonClaimLost, claimLost(f.Home).message())
	case f.OtherUser != "":
		return isFalse(api.ConditionHomeReady, api.ReasonHomeInUse, fmt.Sprintf(
			"The home is in use by %s, whose Pod mounts the claim %s: the desktop starts once that Pod is gone.", f.OtherUser, f.Home.Name))
	}
	return claimCondition(f.Home, f.HomeTooSmall)
}

func claimCondition(pvc *corev1.PersistentVolumeClaim, tooSmall string) metav1.Condition {
	bound := pvc.Status.Phase == corev1.ClaimBound
	switch {
	case bound && pvc.DeletionTimestamp != nil:
		return isTrue(api.ConditionHomeReady, api.ReasonBound, fmt.Sprintf(
			"The claim %s is being deleted: the home is lost when the desktop stops.", pvc.Name))
	case bound && tooSmall != "":
		return isTrue(api.ConditionHomeReady, api.ReasonBoundTooSmall, sentence(tooSmall))
	case bound:
		return isTrue(api.ConditionHomeReady, api.ReasonBound, fmt.Sprintf("The claim %s is bound.", pvc.Name))
	case pvc.DeletionTimestamp != nil:
		return binding("The claim %s is being deleted, a new one is created when it is gone.", pvc.Name)
	default:
		return binding("The claim %s waits for a volume of %s.", pvc.Name, storageClass(pvc))
	}
}

func isLost(pvc *corev1.PersistentVolumeClaim) bool { return pvc.Status.Phase == corev1.ClaimLost }

func claimLost(pvc *corev1.PersistentVolumeClaim) finding {
	return finding{api.ReasonClaimLost, fmt.Sprintf("The volume %s of the home's claim %s is gone", pvc.Spec.VolumeName, pvc.Name)}
}

func binding(format string, args ...any) metav1.Condition {
	return isFalse(api.ConditionHomeReady, api.ReasonBinding, fmt.Sprintf(format, args...))
}

func storageClass(pvc *corev1.PersistentVolumeClaim) string {
	if name := pvc.Spec.StorageClassName; name != nil && *name != "" {
		return "storage class " + *name
	}
	return "the default storage class: if this lasts, the cluster may have none"
}
