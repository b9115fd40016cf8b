package kwok

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lostAnnotation marks the nodes, and the Pods on them, that KWOK does not simulate any
// more, as if the machine had lost its power.
const lostAnnotation = "harness.vdi.kasm.io/lost"

// LoseNode fails a node: it and its Pods are not Ready, as after the grace period of the
// node controller, and a deleted Pod stays until RestoreNode or a forced deletion. No more
// Pods are scheduled to it.
//
// KWOK continues to renew the node's lease, which has no effect while the condition Ready is
// Unknown.
func (n *Nodes) LoseNode(ctx context.Context, name string) error {
	// The node first: a Pod that is bound to it a moment later would not be
	// marked.
	if err := n.markNode(ctx, name, `"power"`, corev1.ConditionUnknown); err != nil {
		return err
	}
	return n.eachPodOn(ctx, name, func(ctx context.Context, pod *corev1.Pod) error {
		// Marked first, so that KWOK does not make it ready again.
		if err := n.annotatePod(ctx, pod, `"power"`); err != nil || pod.Status.Phase != corev1.PodRunning {
			return err
		}
		return n.setPodNotReady(ctx, pod)
	})
}

// RestoreNode restores a node that LoseNode failed. Its Pods become Ready again, and those
// that were deleted meanwhile end.
func (n *Nodes) RestoreNode(ctx context.Context, name string) error {
	// KWOK makes a node that is not marked Ready again, and so its Pods.
	if err := n.markNode(ctx, name, "null", corev1.ConditionFalse); err != nil {
		return err
	}
	return n.eachPodOn(ctx, name, func(ctx context.Context, pod *corev1.Pod) error {
		return n.annotatePod(ctx, pod, "null")
	})
}

// markNode sets or removes the mark, and writes whether the node is Ready.
func (n *Nodes) markNode(ctx context.Context, name, mark string, ready corev1.ConditionStatus) error {
	nodes := n.client.CoreV1().Nodes()
	if _, err := nodes.Patch(ctx, name, types.MergePatchType, annotation(mark), metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("marking node %s: %w", name, err)
	}
	if _, err := nodes.Patch(ctx, name, types.StrategicMergePatchType, readiness(ready), metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("setting node %s to Ready=%s: %w", name, ready, err)
	}
	return nil
}

// eachPodOn calls do with each Pod of a node, and ignores Pods that no longer exist.
func (n *Nodes) eachPodOn(ctx context.Context, node string, do func(context.Context, *corev1.Pod) error) error {
	pods, err := n.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return fmt.Errorf("listing the Pods of node %s: %w", node, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if err := do(ctx, pod); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("marking Pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

func (n *Nodes) annotatePod(ctx context.Context, pod *corev1.Pod, value string) error {
	_, err := n.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, annotation(value), metav1.PatchOptions{})
	return err
}

func (n *Nodes) setPodNotReady(ctx context.Context, pod *corev1.Pod) error {
	_, err := n.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, readiness(corev1.ConditionFalse), metav1.PatchOptions{}, "status")
	return err
}

// annotation returns a patch that sets the mark to a JSON value; null removes it.
func annotation(value string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, lostAnnotation, value)
}

// readiness returns a patch of the condition Ready of a node or a Pod.
func readiness(ready corev1.ConditionStatus) []byte {
	return fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"NodeStatusUnknown","lastTransitionTime":%q}]}}`,
		ready, time.Now().UTC().Format(time.RFC3339))
}
