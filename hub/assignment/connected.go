package assignment

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/bulk"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// connections enqueues the placed and the reported assignments of members that connect, since
// requests for an unavailable member were dropped: at once those of which it is known that there may
// be something to do, with their sessions, and at a limited rate those of settled sessions. A report
// that has changed enqueues both as always.
type connections struct {
	*Reconciler
	queue workqueue.TypedInterface[mcreconcile.Request]
	// settled are the assignments of settled sessions.
	settled *bulk.Feed[mcreconcile.Request]
}

func newConnections(r *Reconciler, queue workqueue.TypedInterface[mcreconcile.Request]) *connections {
	return &connections{r, queue, bulk.NewFeed[mcreconcile.Request]()}
}

// connected starts to enqueue the assignments of members that connect.
func (r *Reconciler) connected(ctx context.Context, queue workqueue.TypedRateLimitingInterface[mcreconcile.Request]) error {
	c := newConnections(r, queue)
	go c.settled.Run(ctx, queue.Add)
	r.Fleet.Listen(func(change member.Change) {
		if change.Kind == member.MemberConnected {
			go c.enqueueMember(ctx, change.Member)
		}
	})
	return nil
}

func (c *connections) enqueueMember(ctx context.Context, member string) {
	reported := c.reportedBy(ctx, member)
	for s := range c.Cached.By(index.Member, member) {
		assignment := KeyOf(s)
		if reported[assignment] && status.Settled(s) {
			c.settled.Add(memberRequest(member, assignment))
		} else {
			c.Sessions.Enqueue(client.ObjectKeyFromObject(s))
			c.queue.Add(memberRequest(member, assignment))
		}
		delete(reported, assignment)
	}
	if ref, known := c.Fleet.RefOf(member); known {
		for _, left := range c.Departures.in(ref.UID) {
			c.queue.Add(memberRequest(member, left))
		}
	}
	for assignment := range reported {
		c.queue.Add(memberRequest(member, assignment))
	}
}

// reportedBy returns the assignments that a member reports, each with whether it is active.
func (c *connections) reportedBy(ctx context.Context, member string) map[types.NamespacedName]bool {
	reported := &v1alpha1.SessionAssignmentList{}
	cl, err := c.Clusters.Get(ctx, multicluster.ClusterName(member))
	if err == nil {
		err = cl.GetClient().List(ctx, reported, client.UnsafeDisableDeepCopy)
	}
	if err != nil {
		return nil
	}
	active := make(map[types.NamespacedName]bool, len(reported.Items))
	for i := range reported.Items {
		a := &reported.Items[i]
		active[client.ObjectKeyFromObject(a)] = a.Status.State == v1alpha1.AssignmentActive
	}
	return active
}
