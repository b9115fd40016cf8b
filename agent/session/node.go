package session

import corev1 "k8s.io/api/core/v1"

// nodeLost reports whether a Pod's node does not answer. A node that is not
// known is not lost: its Pods are removed by the cluster itself.
func (r *Reconciler) nodeLost(pod *corev1.Pod) bool {
	if r.Nodes == nil || pod == nil || pod.Spec.NodeName == "" {
		return false
	}
	ready, known := r.Nodes.NodeReady(pod.Spec.NodeName)
	return known && !ready
}
