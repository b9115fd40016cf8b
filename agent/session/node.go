package session

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
)

// nodePoll is how often a Pod that is not ready is looked at for the sake of its node:
// nothing happens to the Pod when that becomes lost for good.
const nodePoll = 30 * time.Second

// nodeOf returns the state of a Pod's node.
func (r *Reconciler) nodeOf(pod *corev1.Pod) observe.Node {
	if r.Nodes == nil || pod.Spec.NodeName == "" {
		return observe.Node{}
	}
	return r.Nodes.Node(pod.Spec.NodeName)
}

// seeNode notes what is known of a Pod's node. One that is not known is lost only to
// Pods that are kept until their stop is proven: others are removed by the cluster
// itself.
func (r *Reconciler) seeNode(p *pass, pod *corev1.Pod) {
	node := r.nodeOf(pod)
	p.found.NodeLost = node.Lost()
	p.found.StopUnknown = r.Nodes != nil && pod.Spec.NodeName != "" && pod.DeletionTimestamp != nil && keptUntilStopped(pod) && !node.Known
	if node.Lost() && !node.Since.IsZero() && !render.ProvesStop(p.assignment) {
		p.found.GivenBack = node.Since.Add(r.Options.LostAfter)
	}
}
