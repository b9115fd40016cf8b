package retention

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// keptUntil returns when the retention of a claim ends, by the member's clock, and false if
// it is used, kept for ever, not ours, or its marks can't be read.
//
// A claim was not last used before it was created: such a mark was written by a clock that
// was not set yet.
func keptUntil(claim *corev1.PersistentVolumeClaim) (time.Time, bool) {
	if claim.Labels[api.LabelManagedBy] != api.ManagedBy || claim.DeletionTimestamp != nil {
		return time.Time{}, false
	}
	lastUse, err := time.Parse(time.RFC3339, claim.Annotations[api.AnnotationLastUse])
	if err != nil {
		return time.Time{}, false
	}
	if created := claim.CreationTimestamp.Time; created.After(lastUse) {
		lastUse = created
	}
	keep, ok := api.Duration(claim.Annotations[api.AnnotationRetention]).Value()
	return lastUse.Add(keep), ok
}

// uses reports whether an assignment names a claim, as whatever.
func uses(a *api.SessionAssignment, claim *corev1.PersistentVolumeClaim) bool {
	return a.Namespace == claim.Namespace && a.Spec.Desktop.Home.ClaimName == claim.Name
}
