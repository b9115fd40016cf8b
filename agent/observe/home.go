package observe

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Home is the condition HomeReady.
func Home(a *api.SessionAssignment, f Found) metav1.Condition {
	home := a.Spec.Desktop.Home
	switch {
	case home.Mode == api.HomeNone || home.Mode == "":
		return isTrue(api.ConditionHomeReady, api.ReasonNoHome, "The desktop has no home.")
	case f.HomeProblem != nil:
		return f.HomeProblem.condition(api.ConditionHomeReady)
	case f.OtherUser != "":
		return isFalse(api.ConditionHomeReady, api.ReasonHomeInUse, fmt.Sprintf(
			"The home's claim %s is mounted by the desktop of %s: this one starts when that has stopped.", home.ClaimName, f.OtherUser))
	case f.Home == nil:
		return isFalse(api.ConditionHomeReady, api.ReasonBinding,
			fmt.Sprintf("The claim %s of the home is not made yet.", home.ClaimName))
	}
	c := claim(f.Home)
	if c.Reason == api.ReasonBound && f.HomeTooSmall != "" {
		c.Reason, c.Message = api.ReasonBoundTooSmall, f.HomeTooSmall
	}
	return c
}

func claim(pvc *corev1.PersistentVolumeClaim) metav1.Condition {
	switch {
	case pvc.Status.Phase == corev1.ClaimLost:
		return isFalse(api.ConditionHomeReady, api.ReasonClaimLost, fmt.Sprintf(
			"The volume %s of the home's claim %s is gone: restore it, or delete the claim to begin with an empty home.",
			pvc.Spec.VolumeName, pvc.Name))
	case pvc.Status.Phase == corev1.ClaimBound && pvc.DeletionTimestamp != nil:
		return isTrue(api.ConditionHomeReady, api.ReasonBound, fmt.Sprintf(
			"The claim %s is being deleted: the home is lost when the desktop stops.", pvc.Name))
	case pvc.Status.Phase == corev1.ClaimBound:
		return isTrue(api.ConditionHomeReady, api.ReasonBound, fmt.Sprintf("The claim %s is bound.", pvc.Name))
	case pvc.DeletionTimestamp != nil:
		return isFalse(api.ConditionHomeReady, api.ReasonBinding, fmt.Sprintf(
			"The claim %s is being deleted, a new one is made when it is gone.", pvc.Name))
	default:
		return isFalse(api.ConditionHomeReady, api.ReasonBinding, fmt.Sprintf(
			"The claim %s waits for a volume of %s.", pvc.Name, storageClass(pvc)))
	}
}

func storageClass(pvc *corev1.PersistentVolumeClaim) string {
	if name := pvc.Spec.StorageClassName; name != nil && *name != "" {
		return "storage class " + *name
	}
	return "the default storage class: if this lasts, the cluster may have none"
}
