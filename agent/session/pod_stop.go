package session

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func hasStopFinalizer(pod *corev1.Pod) bool {
	return controllerutil.ContainsFinalizer(pod, api.PodFinalizer)
}

// awaitStop removes the finalizer from a Pod that is being deleted once it has stopped. If the
// assignment requires no proof, it is removed once the Pod would be gone without it.
func (s *podStep) awaitStop(ctx context.Context, p *pass, pod *corev1.Pod) error {
	if !hasStopFinalizer(pod) {
		return nil
	}
	proven := observe.Stopped(pod, s.Nodes.Node(pod.Spec.NodeName))
	if !proven && (render.RequiresStopProof(p.Assignment) || ptr.Deref(pod.DeletionGracePeriodSeconds, 1) > 0) {
		p.RequeueWithin(nodePoll) // a taint of its node causes no event
		return nil
	}
	p.RequeueWithin(children.CacheDelay)
	return s.releasePod(ctx, pod)
}

// releasePod removes the finalizer from a Pod, unless it has changed.
func (s *podStep) releasePod(ctx context.Context, pod *corev1.Pod) error {
	released := pod.DeepCopy()
	controllerutil.RemoveFinalizer(released, api.PodFinalizer)
	children.CountWrite(children.Pods.Name, "release")
	err := s.Client.Patch(ctx, released, client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("removing the finalizer of Pod %s: %w", pod.Name, err)
	}
	return nil // a conflict is followed by an event
}

// releaseOrphans releases the stopped Pods of an assignment that was deleted without its
// finalizer.
func (s *podStep) releaseOrphans(ctx context.Context, assignment client.ObjectKey) error {
	var list corev1.PodList
	err := s.Client.List(ctx, &list, client.InNamespace(assignment.Namespace), client.MatchingFields{render.AssignmentIndex: assignment.Name})
	if err != nil {
		return fmt.Errorf("listing Pods: %w", err)
	}
	for i := range list.Items {
		if pod := &list.Items[i]; hasStopFinalizer(pod) && observe.Stopped(pod, s.Nodes.Node(pod.Spec.NodeName)) {
			if err := s.releasePod(ctx, pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// forceDeleteLost force-deletes the Pod of a node that has not answered for LostAfter, so that
// the desktop starts on another one, unless the desktop must never run twice or has a home:
// then only an operator can decide.
func (s *podStep) forceDeleteLost(ctx context.Context, p *pass, pod *corev1.Pod) (deleted bool, err error) {
	if p.Found.RecreateAt.IsZero() {
		if !render.RequiresStopProof(p.Assignment) && pod.Spec.NodeName != "" && observe.PodCondition(pod, corev1.PodReady).Status != corev1.ConditionTrue {
			p.RequeueWithin(nodePoll)
		}
		return false, nil
	}
	if wait := p.Found.RecreateAt.Sub(p.Now); wait > 0 {
		p.RequeueWithin(min(wait, nodePoll))
		return false, nil
	}
	if err := s.forcePod(ctx, p, pod); err != nil {
		return false, err
	}
	p.RequeueWithin(children.ConflictRetry)
	log.FromContext(ctx).Info(transitionLostDeleted, append(transitionValues(p.Assignment), "node", pod.Spec.NodeName)...)
	s.event(p.Assignment, corev1.EventTypeWarning, api.EventNodeLost, fmt.Sprintf(
		"Node %s has not answered for %s: its Pod was deleted without waiting for the kubelet, which may still run it.", pod.Spec.NodeName, s.Options.LostAfter))
	return true, nil
}

// forcePod deletes a Pod without waiting for its kubelet.
func (s *podStep) forcePod(ctx context.Context, p *pass, pod *corev1.Pod) error {
	err := p.Write(children.Pods.Name, "force", func() error {
		return s.Client.Delete(ctx, pod, client.Preconditions{UID: ptr.To(pod.UID)}, client.GracePeriodSeconds(0))
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Pod %s by force: %w", pod.Name, err)
	}
	if !hasStopFinalizer(pod) {
		return nil
	}
	var now corev1.Pod
	err = s.APIReader.Get(ctx, client.ObjectKeyFromObject(pod), &now)
	if apierrors.IsNotFound(err) || err == nil && (now.UID != pod.UID || !hasStopFinalizer(&now)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading Pod %s: %w", pod.Name, err)
	}
	return s.releasePod(ctx, &now)
}

// nodePoll is how often to check the node of a Pod that is not ready, whose loss causes no
// event.
const nodePoll = 30 * time.Second

// observeNode records the state of a Pod's node. A missing Node matters only for Pods with the
// stop finalizer: the cluster removes others.
func (s *podStep) observeNode(p *pass, pod *corev1.Pod) {
	node := s.Nodes.Node(pod.Spec.NodeName)
	p.Found.NodeLost = node.Lost()
	p.Found.StopUnknown = pod.Spec.NodeName != "" && pod.DeletionTimestamp != nil && hasStopFinalizer(pod) && !node.Known
	if node.Lost() && !node.Since.IsZero() && !render.RequiresStopProof(p.Assignment) {
		p.Found.RecreateAt = node.Since.Add(s.Options.LostAfter)
	}
}

// observeGrowth records what a Pod without a node depends on.
func (s *podStep) observeGrowth(p *pass) {
	if pod := p.Found.Pod; s.Growth != nil && pod != nil && pod.Spec.NodeName == "" {
		p.Found.Growth = s.Growth.Growth(pod.UID)
	}
}

// orderedSince is the first minor version of Kubernetes 1 whose namespace controller deletes
// the Pods of a namespace before all other objects.
const orderedSince = 33

// orderedDeletion caches whether the member's API server supports that.
type orderedDeletion struct {
	mu               sync.Mutex
	known, supported bool
}

// dropFinalizerOfOldServer removes the finalizer from a Pod that is to be created in an older
// Kubernetes: a namespace that is deleted there may lose the agent's RoleBinding before its
// Pods, and the finalizer could not be removed.
func (s *podStep) dropFinalizerOfOldServer(ctx context.Context, pod *corev1.Pod) error {
	if !hasStopFinalizer(pod) {
		return nil
	}
	s.ordered.mu.Lock()
	defer s.ordered.mu.Unlock()
	if !s.ordered.known {
		info, err := s.ServerVersion()
		if err != nil {
			return fmt.Errorf("reading the API server's version: %w", err)
		}
		s.ordered.known, s.ordered.supported = true, deletesInOrder(info)
		if !s.ordered.supported {
			log.FromContext(ctx).Info("A Pod that is deleted by force counts as stopped: Kubernetes is too old to delete Pods first",
				"version", info.GitVersion, "atLeast", orderedSince)
		}
	}
	if !s.ordered.supported {
		controllerutil.RemoveFinalizer(pod, api.PodFinalizer)
	}
	return nil
}

// deletesInOrder reports whether an API server deletes the Pods of a namespace first. An
// unparsable version counts as new.
func deletesInOrder(info *version.Info) bool {
	minor, err := strconv.Atoi(strings.TrimRight(info.Minor, "+"))
	return err != nil || info.Major != "1" || minor >= orderedSince
}
