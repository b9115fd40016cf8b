package assignment

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

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
	// settled are the members whose settled sessions are still to be compared.
	settled *bulk.Feed[string]
}

func newConnections(r *Reconciler, queue workqueue.TypedInterface[mcreconcile.Request]) *connections {
	return &connections{r, queue, bulk.NewFeed[string]()}
}

// connected starts to enqueue the assignments of members that connect.
func (r *Reconciler) connected(ctx context.Context, queue workqueue.TypedRateLimitingInterface[mcreconcile.Request]) error {
	c := newConnections(r, queue)
	go c.settled.Run(ctx, c.compareSettled)
	r.Fleet.Listen(func(change member.Change) {
		if change.Kind == member.MemberConnected {
			go c.enqueueMember(change.Member)
		}
	})
	return nil
}

// compareSettled enqueues the assignments of a member's settled sessions, each after wait.
func (c *connections) compareSettled(member string, wait func() bool) {
	for s := range c.Cached.By(index.Member, member) {
		if !status.Settled(s) {
			continue // its change has enqueued it
		}
		if !wait() {
			return
		}
		c.queue.Add(memberRequest(member, KeyOf(s)))
	}
}

func (c *connections) enqueueMember(member string) {
	reported := c.Fleet.Reported(member)
	for s := range c.Cached.By(index.Member, member) {
		assignment := KeyOf(s)
		if reported[assignment] && status.Settled(s) {
			c.settled.Add(member)
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
