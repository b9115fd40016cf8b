package session

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// observer counts sessions for their members, and removes those that are gone.
type observer struct{ *Reconciler }

// observe observes the sessions of the hub's cache.
func (o observer) observe(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.VDISession{})
	if err != nil {
		return fmt.Errorf("watching sessions: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { o.seen(obj, false, false) },
		UpdateFunc: o.changed,
		DeleteFunc: func(obj any) { o.seen(obj, true, closed(mgr.Elected())) },
	})
	if err != nil {
		return fmt.Errorf("watching sessions: %w", err)
	}
	return nil
}

// changed counts a session that the watch shows changed. A session that was deleted and
// created again under its name while the watch was interrupted also arrives as a change:
// how the earlier one ended is unknown.
func (o observer) changed(before, after any) {
	was, ok := before.(*v1alpha1.VDISession)
	is, same := after.(*v1alpha1.VDISession)
	if ok && same && was.UID != is.UID {
		key := client.ObjectKeyFromObject(was).String()
		o.seen(toolscache.DeletedFinalStateUnknown{Key: key, Obj: was}, true, false)
	}
	o.seen(after, false, false)
}

// seen counts a session as the watch shows it, and removes one that is gone. leads is set
// if this replica leads.
func (o observer) seen(obj any, gone, leads bool) {
	last, absent := obj.(toolscache.DeletedFinalStateUnknown)
	if absent {
		obj = last.Obj
	}
	s, ok := obj.(*v1alpha1.VDISession)
	if !ok {
		return
	}
	// An absence from a list is no deletion, and a replica that does not lead would
	// never get its members' confirmation.
	switch {
	case gone && !absent && leads:
		o.Departures.Observe(s, o.Fleet.Gone)
	case gone:
		o.Departures.Keep(s.UID)
	}
	o.Reservations.Observe(s, gone)
	for _, u := range o.drains.Observe(s, gone) {
		o.showDrain(u)
	}
	if gone {
		o.memory.Forget(s.UID)
	} else if meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionAssigned) {
		o.memory.Stored(s.UID)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
