package render

import (
	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// ProvesStop reports whether the end of an assignment's desktop counts only once its
// kubelet has reported it: the desktop must never run twice, or it writes to a home.
func ProvesStop(a *api.SessionAssignment) bool {
	mode := a.Spec.FailoverMode
	return mode == api.FailoverHold || mode == api.FailoverFence || HasHome(a)
}

// keepUntilStopped has the API server keep a Pod until its stop is proven.
func keepUntilStopped(a *api.SessionAssignment, pod *corev1.Pod) {
	if ProvesStop(a) {
		pod.Finalizers = []string{api.PodFinalizer}
	}
}
