package assignment

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

var podListKind = corev1.SchemeGroupVersion.WithKind("PodList")

// watch passes on every change of an assignment until stop is called. It
// returns once all that there are have been seen.
func (s *Store) watch(ctx context.Context) (stop func(), err error) {
	informer, err := s.Cache.GetInformer(ctx, &v1alpha1.SessionAssignment{})
	if err != nil {
		return nil, fmt.Errorf("watching assignments: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { s.Teller.Mark(refOf(o.(*v1alpha1.SessionAssignment))) },
		UpdateFunc: func(before, after any) {
			s.changed(before.(*v1alpha1.SessionAssignment), after.(*v1alpha1.SessionAssignment))
		},
		DeleteFunc: s.deleted,
	})
	if err != nil {
		return nil, fmt.Errorf("watching assignments: %w", err)
	}
	stop = func() { _ = informer.RemoveEventHandler(registration) }
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		stop()
		return func() {}, nil
	}
	close(s.synced)
	return stop, nil
}

func refOf(a *v1alpha1.SessionAssignment) link.Ref {
	return link.Ref{UID: a.Spec.Session.UID, NamespacedName: client.ObjectKeyFromObject(a)}
}

// changed marks an assignment of which the hub would be told something new.
func (s *Store) changed(before, after *v1alpha1.SessionAssignment) {
	if !proto.Equal(report(before), report(after)) {
		s.Teller.Mark(refOf(after))
	}
}

// deleted sees to it that the hub learns of a stop, whoever asked for it.
func (s *Store) deleted(o any) {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	a, ok := o.(*v1alpha1.SessionAssignment)
	if ok {
		s.ordered.forget(a.UID)
	}
	if !ok || a.Spec.Epoch < 1 {
		return
	}
	s.Teller.Mark(refOf(a))
	s.gone(a)
}

// gone has the end of an assignment confirmed and told. One that the hub
// asked for is waiting for just this.
func (s *Store) gone(a *v1alpha1.SessionAssignment) {
	uid := a.Spec.Session.UID
	s.mu.Lock()
	defer s.mu.Unlock()
	s.floors.raise(uid, a.Spec.Epoch+1)
	if sl := s.slotOf(uid); sl.withdraw == nil || sl.withdraw.GetUpToEpoch() < a.Spec.Epoch {
		sl.putWithdraw(&withdrawal{told: true, Withdrawal: &fleetv1.Withdrawal{
			SessionUid: string(uid), Namespace: a.Namespace, Name: a.Name, UpToEpoch: a.Spec.Epoch,
		}})
	}
	s.queue.Add(uid)
}

// List names all assignments of the member.
func (s *Store) List(ctx context.Context) ([]link.Held, error) {
	list := &v1alpha1.SessionAssignmentList{}
	if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	held := make([]link.Held, 0, len(list.Items))
	for i := range list.Items {
		held = append(held, link.Held{Ref: refOf(&list.Items[i]), Version: list.Items[i].ResourceVersion})
	}
	return held, nil
}

// Render gives an assignment as it is now, nil if it is not there.
func (s *Store) Render(ref link.Ref) *fleetv1.AssignmentReport {
	a := &v1alpha1.SessionAssignment{}
	// A cache answers without waiting, and with nothing but NotFound.
	if err := s.Client.Get(context.Background(), ref.NamespacedName, a); err != nil {
		return nil
	}
	return report(a)
}

// report is what the hub is told: an assignment that is stored is Active, and
// Stopping from its deletion on, whatever its status says yet. A spec that
// somebody has edited is not what the hub has sent, and the hash says so.
func report(a *v1alpha1.SessionAssignment) *fleetv1.AssignmentReport {
	r := convert.ReportToWire(a)
	if edited(a) {
		r.SpecHash = editedHash
	}
	switch {
	case !a.DeletionTimestamp.IsZero():
		r.Status.State = string(v1alpha1.AssignmentStopping)
	case r.Status.State == "":
		r.Status.State = string(v1alpha1.AssignmentActive)
	}
	return r
}
