package harness

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lostAnnotation marks the nodes, and the Pods on them, that KWOK plays no more:
// as with a machine that has lost its power.
const lostAnnotation = "harness.vdi.kasm.io/lost"

// LoseNode makes a node silent: it and its Pods are not Ready, as the node
// controller says once its patience is over, and the Pods stay, whoever deletes
// them, until RestoreNode or somebody forces them away.
func (cp *ControlPlane) LoseNode(ctx context.Context, name string) error {
	return cp.markLost(ctx, name, `"power"`, corev1.ConditionUnknown, corev1.ConditionFalse)
}

// RestoreNode brings a node back that LoseNode made silent.
func (cp *ControlPlane) RestoreNode(ctx context.Context, name string) error {
	return cp.markLost(ctx, name, "null", corev1.ConditionFalse, corev1.ConditionTrue)
}

// markLost marks the node and its Pods, and says how they are. KWOK makes a node
// that is not marked Ready again.
func (cp *ControlPlane) markLost(ctx context.Context, name, mark string, ready, podsReady corev1.ConditionStatus) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, lostAnnotation, mark)
	pods, err := cp.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	if err != nil {
		return fmt.Errorf("listing the Pods of node %s: %w", name, err)
	}
	if _, err := cp.Client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("marking node %s: %w", name, err)
	}
	for i := range pods.Items {
		pod := cp.Client.CoreV1().Pods(pods.Items[i].Namespace)
		_, err := pod.Patch(ctx, pods.Items[i].Name, types.StrategicMergePatchType, readiness(podsReady), metav1.PatchOptions{}, "status")
		if err == nil {
			_, err = pod.Patch(ctx, pods.Items[i].Name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("marking Pod %s: %w", pods.Items[i].Name, err)
		}
	}
	status := readiness(ready)
	if _, err := cp.Client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, status, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("making node %s silent: %w", name, err)
	}
	return nil
}

// readiness is a patch of a node's or a Pod's condition Ready.
func readiness(ready corev1.ConditionStatus) []byte {
	return fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"NodeStatusUnknown","lastTransitionTime":%q}]}}`,
		ready, time.Now().UTC().Format(time.RFC3339))
}
