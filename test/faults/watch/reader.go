package watch

import (
	"context"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
)

var _ checker.APIReader = &Watcher{}

// Session reads a session by its name, or finds it among all if the name is unknown.
func (w *Watcher) Session(ctx context.Context, name string, uid types.UID) (*checker.SessionState, error) {
	if name != "" {
		s := &v1alpha1.VDISession{}
		if err := w.Hub.Get(ctx, Key(name), s); err != nil || s.UID != uid {
			return nil, IgnoreNotFound(err)
		}
		return sessionOf(s), nil
	}
	list := &v1alpha1.VDISessionList{}
	if err := w.Hub.List(ctx, list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].UID == uid {
			return sessionOf(&list.Items[i]), nil
		}
	}
	return nil, nil
}

// Assignment reads an assignment of a member.
func (w *Watcher) Assignment(ctx context.Context, cluster, name string, session types.UID) (*checker.AssignmentState, error) {
	if m := w.simulatedOf(cluster); m != nil {
		if a := m.Assignments()[session]; a != nil {
			return assignmentOf(cluster, a), nil
		}
		return nil, nil
	}
	a := &v1alpha1.SessionAssignment{}
	if err := w.members[cluster].Get(ctx, Key(name), a); err != nil || a.Spec.Session.UID != session {
		return nil, IgnoreNotFound(err)
	}
	return assignmentOf(cluster, a), nil
}

// Assignments reads all assignments of a member.
func (w *Watcher) Assignments(ctx context.Context, cluster string) (out []checker.AssignmentState, err error) {
	if m := w.simulatedOf(cluster); m != nil {
		for _, a := range m.Assignments() {
			out = append(out, *assignmentOf(cluster, a))
		}
		return out, nil
	}
	list := &v1alpha1.SessionAssignmentList{}
	if err := w.members[cluster].List(ctx, list); err != nil {
		return nil, err
	}
	for i := range list.Items {
		out = append(out, *assignmentOf(cluster, &list.Items[i]))
	}
	return out, nil
}

// simulatedOf returns nil for a member with an API server.
func (w *Watcher) simulatedOf(cluster string) SimulatedMember {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.simulated[cluster]
}

func (w *Watcher) allSimulated() map[string]SimulatedMember {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.simulated)
}

// Pod reads a Pod of a member.
func (w *Watcher) Pod(ctx context.Context, p checker.PodState) (*checker.PodState, error) {
	o := &corev1.Pod{}
	if err := w.members[p.Cluster].Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: p.Name}, o); err != nil || o.UID != p.UID {
		return nil, IgnoreNotFound(err)
	}
	return podOf(p.Cluster, o), nil
}

// DeletionRequested reads the member's audit log.
func (w *Watcher) DeletionRequested(pod checker.PodState, seen, gone time.Time) (bool, error) {
	return deletionRequested(w.audits[pod.Cluster], pod, seen, gone)
}

// Key returns the key of NAMESPACE/NAME.
func Key(name string) client.ObjectKey {
	namespace, name, _ := strings.Cut(name, "/")
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// IgnoreNotFound drops the error of an object that does not exist.
func IgnoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
