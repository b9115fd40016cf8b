package assignment

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// forcedByHub is the reason on the assignment of a forced withdrawal: the operator's own
// is on the hub's session.
const forcedByHub = "the hub withdrew the session with force"

// force makes agent/session delete the Pods without waiting for the kubelet. It marks the
// very version that was read: a higher epoch must not inherit it.
func (s withdrawer) force(ctx context.Context, a *v1alpha1.SessionAssignment) error {
	if _, marked := a.Annotations[v1alpha1.AnnotationForceCleanup]; marked {
		return nil
	}
	before := a.DeepCopy()
	set(&a.Annotations, v1alpha1.AnnotationForceCleanup, forcedByHub)
	metricWrites.WithLabelValues("patch").Inc()
	err := s.Client.Patch(ctx, a, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("marking the assignment: %w", err)
	}
	return nil
}

// forcePods deletes Pods of no assignment without waiting for their kubelets, and returns
// those that the API server still has because of a finalizer.
func (s withdrawer) forcePods(ctx context.Context, w *withdrawal, pods []metav1.PartialObjectMetadata) ([]metav1.PartialObjectMetadata, error) {
	deleted := 0
	for i := range pods {
		if err := s.releasePod(ctx, &pods[i]); err != nil {
			return nil, err
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pods[i].Namespace, Name: pods[i].Name}}
		err := s.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: ptr.To(pods[i].UID)})
		switch {
		case err == nil:
			deleted++
		case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			return nil, fmt.Errorf("deleting Pod %s by force: %w", pods[i].Name, err)
		}
	}
	left, err := s.podsLeft(ctx, w)
	if err == nil && len(left) < len(pods) {
		log.FromContext(ctx).Info("Deleted the Pods of a session without waiting for their kubelets",
			"namespace", w.GetNamespace(), "assignment", w.GetName(), "epoch", w.GetUpToEpoch(), "pods", deleted)
	}
	return left, err
}

// releasePod removes the finalizer that makes a Pod wait for its kubelet.
func (s withdrawer) releasePod(ctx context.Context, pod *metav1.PartialObjectMetadata) error {
	before := pod.DeepCopy()
	if !controllerutil.RemoveFinalizer(pod, v1alpha1.PodFinalizer) {
		return nil
	}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	err := s.Client.Patch(ctx, pod, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing the finalizer of Pod %s: %w", pod.Name, err)
	}
	return nil
}
