package assignment

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

var podListKind = corev1.SchemeGroupVersion.WithKind("PodList")

// watch is the controller's source of orders and deletions of assignments. It reports every
// change of an assignment.
type watch struct {
	*Store
	registration toolscache.ResourceEventHandlerRegistration
}

// Start enqueues the orders that were received before, and watches the assignments.
func (w *watch) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[types.UID]) error {
	w.mu.Lock()
	w.queue = queue
	for uid := range w.pending.slots {
		queue.Add(uid)
	}
	w.mu.Unlock()
	informer, err := w.Cache.GetInformer(ctx, &v1alpha1.SessionAssignment{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching assignments: %w", err)
	}
	w.registration, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { w.Reporter.Mark(refOf(o.(*v1alpha1.SessionAssignment))) },
		UpdateFunc: func(before, after any) {
			w.changed(before.(*v1alpha1.SessionAssignment), after.(*v1alpha1.SessionAssignment))
		},
		DeleteFunc: w.deleted,
	})
	if err != nil {
		return fmt.Errorf("watching assignments: %w", err)
	}
	return nil
}

// WaitForSync waits until all assignments of the member are known.
func (w *watch) WaitForSync(ctx context.Context) error {
	if !toolscache.WaitForCacheSync(ctx.Done(), w.registration.HasSynced) {
		return errors.New("the cache of assignments did not sync in time")
	}
	close(w.synced)
	return nil
}

func refOf(a *v1alpha1.SessionAssignment) link.Ref {
	return link.Ref{UID: a.Spec.Session.UID, NamespacedName: client.ObjectKeyFromObject(a)}
}

// changed marks an assignment whose report has changed.
func (s *Store) changed(before, after *v1alpha1.SessionAssignment) {
	if !proto.Equal(report(before), report(after)) {
		s.Reporter.Mark(refOf(after))
	}
}

// deleted confirms and reports a stop, whoever ordered it.
func (s *Store) deleted(o any) {
	if unknown, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
		o = unknown.Obj
	}
	a, ok := o.(*v1alpha1.SessionAssignment)
	if ok {
		s.applier.ordered.Delete(a.UID)
	}
	if !ok || a.Spec.Epoch < 1 {
		return
	}
	s.Reporter.Mark(refOf(a))
	s.change(a.Spec.Session.UID, func(p *pending) bool {
		p.deleted(a)
		return true
	})
}

// List returns all assignments of the member.
func (s *Store) List(ctx context.Context) ([]link.InventoryItem, error) {
	list := &v1alpha1.SessionAssignmentList{}
	if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	items := make([]link.InventoryItem, 0, len(list.Items))
	for i := range list.Items {
		items = append(items, link.InventoryItem{Ref: refOf(&list.Items[i]), Version: list.Items[i].ResourceVersion})
	}
	return items, nil
}

// Render returns the report of an assignment, or nil if there is none.
func (s *Store) Render(ref link.Ref) *fleetv1.AssignmentReport {
	a := &v1alpha1.SessionAssignment{}
	// A cache does not block, and its only error is NotFound.
	if err := s.Client.Get(context.Background(), ref.NamespacedName, a); err != nil {
		return nil
	}
	return report(a)
}

// report returns the report for the hub. A stored assignment is Active, and Stopping from
// its deletion on, even if its status does not show that yet. An edited spec is not the
// hub's, and is reported with editedHash.
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
