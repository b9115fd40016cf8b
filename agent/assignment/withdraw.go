package assignment

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// lookAgain is how often what is being removed is looked at besides the event
// of its end: the Pod of an assignment that lost its finalizer gives none.
const lookAgain = 2 * time.Second

// soon is when what has changed under our hands is looked at again.
const soon = 50 * time.Millisecond

// withdraw removes what is withdrawn, and is done when nothing of it is left
// and Stopped was told. Until then the assignment's end brings the session up
// again.
func (s *Store) withdraw(ctx context.Context, w *withdrawal) (done bool, err error) {
	key := types.NamespacedName{Namespace: w.GetNamespace(), Name: w.GetName()}
	existing, err := s.find(ctx, key)
	if err != nil {
		return false, err
	}
	uid := types.UID(w.GetSessionUid())
	switch {
	case existing == nil, existing.Spec.Session.UID != uid:
		return s.confirm(ctx, w)
	case existing.Spec.Epoch > w.GetUpToEpoch():
		// A higher epoch took the object over, and the Pod if there was one.
		s.stopped(w)
		return true, nil
	}
	if w.GetForce() {
		err := s.force(ctx, existing)
		if apierrors.IsConflict(err) {
			// Its status was written meanwhile, or it is of a higher epoch now.
			s.queue.AddAfter(uid, soon)
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	if existing.DeletionTimestamp.IsZero() {
		if err := s.remove(ctx, existing, w); err != nil {
			return false, err
		}
		log.FromContext(ctx).Info(transitionWithdrawn, transitionValues(existing)...)
	}
	s.tellStored(w)
	return false, nil
}

// find reads the cache, and the API server where that has nothing.
func (s *Store) find(ctx context.Context, key types.NamespacedName) (*v1alpha1.SessionAssignment, error) {
	a := &v1alpha1.SessionAssignment{}
	err := s.Client.Get(ctx, key, a)
	if apierrors.IsNotFound(err) {
		err = s.Live.Get(ctx, key, a)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return a, err
}

// remove deletes the very object that was looked at. If it has changed since,
// it is looked at again from the API server: it may be of a higher epoch now.
func (s *Store) remove(ctx context.Context, a *v1alpha1.SessionAssignment, w *withdrawal) error {
	for attempt := 0; ; attempt++ {
		metricWrites.WithLabelValues("delete").Inc()
		err := s.Client.Delete(ctx, a, client.Preconditions(metav1.Preconditions{
			UID: &a.UID, ResourceVersion: &a.ResourceVersion,
		}))
		if !apierrors.IsConflict(err) || attempt == 3 {
			return client.IgnoreNotFound(err)
		}
		fresh := &v1alpha1.SessionAssignment{}
		err = s.Live.Get(ctx, client.ObjectKeyFromObject(a), fresh)
		if err != nil || fresh.UID != a.UID || fresh.Spec.Epoch > w.GetUpToEpoch() {
			// Gone, or another's: what is there by now is looked at anew.
			s.queue.AddAfter(types.UID(w.GetSessionUid()), soon)
			return client.IgnoreNotFound(err)
		}
		a = fresh
	}
}

// confirm tells Stopped once the API server has no Pod of the session. One
// that is left is of an assignment whose finalizer somebody took away, and the
// garbage collector removes it in its own time, unless the hub has no patience.
func (s *Store) confirm(ctx context.Context, w *withdrawal) (done bool, err error) {
	pods, err := s.podsLeft(ctx, w)
	if err == nil && len(pods) > 0 && w.GetForce() {
		pods, err = s.forcePods(ctx, w, pods)
	}
	if err != nil {
		return false, err
	}
	if len(pods) > 0 {
		s.tellStored(w)
		return false, nil
	}
	s.stopped(w)
	return true, nil
}

// podsLeft are the session's Pods that the API server itself has.
func (s *Store) podsLeft(ctx context.Context, w *withdrawal) ([]metav1.PartialObjectMetadata, error) {
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(podListKind)
	err := s.Live.List(ctx, pods, client.InNamespace(w.GetNamespace()),
		client.MatchingLabels{v1alpha1.LabelSessionUID: w.GetSessionUid()})
	if err != nil {
		return nil, fmt.Errorf("listing Pods: %w", err)
	}
	return pods.Items, nil
}

func (s *Store) stopped(w *withdrawal) {
	s.Teller.Add(aboutWithdrawal(w.Withdrawal, fleetv1.ResultCode_RESULT_CODE_STOPPED))
}

func (s *Store) tellStored(w *withdrawal) {
	if !w.told {
		w.told = true
		s.Teller.Add(aboutWithdrawal(w.Withdrawal, fleetv1.ResultCode_RESULT_CODE_STORED))
	}
}
