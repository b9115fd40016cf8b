package faults

import (
	"context"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ oracle = &watcher{}

// session finds by name if that is known, or among all.
func (w *watcher) session(ctx context.Context, name string, uid types.UID) (*sessionFact, error) {
	if name != "" {
		s := &v1alpha1.VDISession{}
		if err := w.hub.Get(ctx, key(name), s); err != nil || s.UID != uid {
			return nil, ignoreNotFound(err)
		}
		return sessionOf(s), nil
	}
	list := &v1alpha1.VDISessionList{}
	if err := w.hub.List(ctx, list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].UID == uid {
			return sessionOf(&list.Items[i]), nil
		}
	}
	return nil, nil
}

func (w *watcher) assignment(ctx context.Context, cluster, name string, session types.UID) (*assignmentFact, error) {
	if m := w.simulatedOf(cluster); m != nil {
		if a := m.assignments()[session]; a != nil {
			return assignmentOf(cluster, a), nil
		}
		return nil, nil
	}
	a := &v1alpha1.SessionAssignment{}
	if err := w.members[cluster].Get(ctx, key(name), a); err != nil || a.Spec.Session.UID != session {
		return nil, ignoreNotFound(err)
	}
	return assignmentOf(cluster, a), nil
}

// simulatedOf is nil for a member that is real.
func (w *watcher) simulatedOf(cluster string) *memory {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.simulated[cluster]
}

func (w *watcher) allSimulated() map[string]*memory {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.simulated)
}

func (w *watcher) pod(ctx context.Context, p podFact) (*podFact, error) {
	o := &corev1.Pod{}
	if err := w.members[p.Cluster].Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: p.Name}, o); err != nil || o.UID != p.UID {
		return nil, ignoreNotFound(err)
	}
	return podOf(p.Cluster, o), nil
}

func (w *watcher) ended(pod podFact, seen, gone time.Time) (bool, error) {
	return deletedBySomebody(w.audits[pod.Cluster], pod, seen, gone)
}

func key(name string) client.ObjectKey {
	namespace, name, _ := strings.Cut(name, "/")
	return client.ObjectKey{Namespace: namespace, Name: name}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func podReady(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionPodReady)
}
