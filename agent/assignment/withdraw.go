package assignment

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// recheck is how often a removal is checked besides the event of its end: the Pod of an
// assignment that lost its finalizer causes none.
const recheck = 2 * time.Second

// conflictRetry is the delay before a retry after a conflict.
const conflictRetry = 50 * time.Millisecond

// withdrawer removes assignments.
type withdrawer struct{ *Options }

// withdraw removes a withdrawn assignment. It returns the delay before the next check, and
// 0 once nothing of it is left and Stopped was reported. The end of the assignment enqueues
// the session.
func (s withdrawer) withdraw(ctx context.Context, w *withdrawal) (time.Duration, error) {
	key := types.NamespacedName{Namespace: w.GetNamespace(), Name: w.GetName()}
	existing, err := read(ctx, s.Client, key)
	if err == nil && existing.ResourceVersion == "" {
		existing, err = read(ctx, s.Live, key)
	}
	if err != nil {
		return 0, err
	}
	switch {
	case existing.ResourceVersion == "", existing.Spec.Session.UID != types.UID(w.GetSessionUid()):
		return s.confirm(ctx, w)
	case existing.Spec.Epoch > w.GetUpToEpoch():
		// A higher epoch has taken over the object, and the Pod if there was one.
		s.stopped(w)
		return 0, nil
	}
	if w.GetForce() {
		err := s.force(ctx, existing)
		if apierrors.IsConflict(err) {
			// Its status was written, or it has a higher epoch now.
			return conflictRetry, nil
		}
		if err != nil {
			return 0, err
		}
	}
	wait := recheck
	if existing.DeletionTimestamp.IsZero() {
		if wait, err = s.remove(ctx, existing, w); err != nil {
			return 0, err
		}
		log.FromContext(ctx).Info(transitionWithdrawn, transitionValues(existing)...)
	}
	s.acknowledge(w)
	return wait, nil
}

// remove deletes the object that was read. If it has changed since, it reads it from the
// API server, since the epoch may be higher now. It returns the delay before the next
// check.
func (s withdrawer) remove(ctx context.Context, a *v1alpha1.SessionAssignment, w *withdrawal) (time.Duration, error) {
	for attempt := 0; ; attempt++ {
		metricWrites.WithLabelValues("delete").Inc()
		err := s.Client.Delete(ctx, a, client.Preconditions(metav1.Preconditions{
			UID: &a.UID, ResourceVersion: &a.ResourceVersion,
		}))
		if !apierrors.IsConflict(err) || attempt == 3 {
			return recheck, client.IgnoreNotFound(err)
		}
		fresh := &v1alpha1.SessionAssignment{}
		err = s.Live.Get(ctx, client.ObjectKeyFromObject(a), fresh)
		if err != nil || fresh.UID != a.UID || fresh.Spec.Epoch > w.GetUpToEpoch() {
			// It is gone or replaced, which the next pass finds.
			return conflictRetry, client.IgnoreNotFound(err)
		}
		a = fresh
	}
}

// confirm reports Stopped once the API server has no Pod of the session. A remaining Pod is
// of an assignment whose finalizer was removed: the garbage collector deletes it, unless
// the withdrawal is forced.
func (s withdrawer) confirm(ctx context.Context, w *withdrawal) (time.Duration, error) {
	pods, err := s.podsLeft(ctx, w)
	if err == nil && len(pods) > 0 && w.GetForce() {
		pods, err = s.forcePods(ctx, w, pods)
	}
	if err != nil {
		return 0, err
	}
	if len(pods) > 0 {
		s.acknowledge(w)
		return recheck, nil
	}
	s.stopped(w)
	return 0, nil
}

// podsLeft returns the session's Pod from the API server. It has the assignment's name.
func (s withdrawer) podsLeft(ctx context.Context, w *withdrawal) ([]metav1.PartialObjectMetadata, error) {
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(podListKind)
	err := s.Live.List(ctx, pods, client.InNamespace(w.GetNamespace()), client.MatchingFields{metav1.ObjectNameField: w.GetName()},
		client.MatchingLabels{v1alpha1.LabelSessionUID: w.GetSessionUid()})
	if err != nil {
		return nil, fmt.Errorf("listing Pods: %w", err)
	}
	return pods.Items, nil
}

func (s withdrawer) stopped(w *withdrawal) {
	s.Reporter.Add(withdrawalResult(w.Withdrawal, fleetv1.ResultCode_RESULT_CODE_STOPPED))
}

// acknowledge reports once that the withdrawal is stored.
func (s withdrawer) acknowledge(w *withdrawal) {
	if !w.acknowledged {
		w.acknowledged = true
		s.Reporter.Add(withdrawalResult(w.Withdrawal, fleetv1.ResultCode_RESULT_CODE_STORED))
	}
}

// forcedByHub is the reason on a forcibly withdrawn assignment; the operator's reason is on
// the hub's session.
const forcedByHub = "the hub withdrew the session with force"

// force requests from agent/session that the Pods are deleted without waiting for the
// kubelet. It marks only the version that was read: a higher epoch must not inherit it.
func (s withdrawer) force(ctx context.Context, a *v1alpha1.SessionAssignment) error {
	if _, marked := a.Annotations[v1alpha1.AnnotationForceCleanup]; marked {
		return nil
	}
	before := a.DeepCopy()
	metav1.SetMetaDataAnnotation(&a.ObjectMeta, v1alpha1.AnnotationForceCleanup, forcedByHub)
	metricWrites.WithLabelValues("patch").Inc()
	err := s.Client.Patch(ctx, a, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("marking the assignment: %w", err)
	}
	return nil
}

// forcePods deletes Pods without an assignment, without waiting for their kubelets, and
// returns those that a finalizer keeps.
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
