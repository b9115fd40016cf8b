package fleet

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// connection is a member as one connection sees it (link.Member). What a
// connection says after it was replaced no longer counts (promise 2).
type connection struct {
	fleet  *Fleet
	member *member
	peer   link.Peer
}

var _ link.Member = &connection{}

// current runs f under the fleet's lock if the connection is still the
// member's, and says whether it was.
func (c *connection) current(f func(m *member)) bool {
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	if c.member.peer != c.peer {
		return false
	}
	f(c.member)
	return true
}

// Inventory takes the whole of what the member holds. The capacity report
// that follows counts all of it.
func (c *connection) Inventory(items []*v1alpha1.SessionAssignment) {
	synced := false
	ok := c.current(func(m *member) {
		m.pic.Replace(items)
		for _, item := range items {
			c.fleet.ledger.CountedFrom(item.Spec.Session.UID, item.Spec.Epoch, m.uid, item.Annotations[v1alpha1.AnnotationSpecHash], 1)
		}
		m.serving = true
		if synced = m.synced; !synced {
			c.fleet.await(m)
		}
	})
	if ok && synced {
		c.fleet.tell(Change{Kind: MemberConnected, Member: c.member.name, UID: c.member.uid})
	}
}

// Reports takes the newest status of some assignments.
func (c *connection) Reports(items []*v1alpha1.SessionAssignment) {
	c.current(func(m *member) { m.pic.Apply(items...) })
}

// Results takes what became of orders.
func (c *connection) Results(results []link.Result) {
	room := false
	for i := range results {
		r := &results[i]
		ok := c.current(func(m *member) { c.fleet.settle(m, r) })
		room = room || (ok && r.Code != link.Stored)
	}
	if room {
		c.fleet.tell(Change{Kind: MemberRoom, Member: c.member.name, UID: c.member.uid})
	}
}

// Capacity takes what room the member has.
func (c *connection) Capacity(report *fleetv1.CapacityReport) {
	ok := c.current(func(m *member) {
		m.capacity, m.slots, m.fresh = capacityFromWire(report), slotsFromWire(report), true
		c.fleet.ledger.Reported(m.uid, report.GetSequence())
	})
	if ok {
		c.fleet.tell(Change{Kind: MemberRoom, Member: c.member.name, UID: c.member.uid})
	}
}

// Closed says that the connection is over, for whatever reason.
func (c *connection) Closed(err error) {
	ok := c.current(func(m *member) { m.peer, m.serving = nil, false })
	if !ok {
		return
	}
	log.Log.WithName("fleet").Info("Agent disconnected", "cluster", c.member.name, "reason", err)
	c.fleet.tell(Change{Kind: MemberChanged, Member: c.member.name, UID: c.member.uid})
}

// settle writes a result into the picture and the ledger.
func (f *Fleet) settle(m *member, r *link.Result) {
	key := types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
	switch r.Code {
	case link.Stored:
		if r.SpecHash != "" {
			f.ledger.CountedFrom(r.SessionUID, r.Epoch, m.uid, r.SpecHash, countedFrom(m, r))
		}
		m.pic.Update(key, func(old *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment { return afterStored(old, r) })
	case link.Stopped:
		f.ledger.Release(r.SessionUID, r.Epoch, m.uid)
		m.pic.Update(key, func(old *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment { return afterStopped(old, r) })
	case link.Refused:
		f.ledger.Release(r.SessionUID, r.Epoch, m.uid)
		m.pic.Update(key, func(old *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment { return afterRefused(old, r) })
	}
	placementResults.WithLabelValues(string(r.Code)).Inc()
}

// countedFrom is which report counts what was stored: an agent that does not
// say will have it in its next.
func countedFrom(m *member, r *link.Result) uint64 {
	switch {
	case r.CountedFrom > 0:
		return r.CountedFrom
	case m.capacity != nil:
		return m.capacity.Sequence + 1
	}
	return 1
}

// afterStored is the picture's item once the member's API server has the
// assignment (or, with no hash, the withdrawal).
func afterStored(old *v1alpha1.SessionAssignment, r *link.Result) *v1alpha1.SessionAssignment {
	withdrawal := r.SpecHash == ""
	switch {
	case old == nil && withdrawal:
		return nil
	case old == nil, old.Spec.Epoch < r.Epoch && !withdrawal:
		item := remembered(r)
		item.Status.State = v1alpha1.AssignmentActive
		return item
	case old.Spec.Epoch > r.Epoch, awaitsRecording(old):
		return old
	}
	item := old.DeepCopy()
	if withdrawal {
		item.Status.State = v1alpha1.AssignmentStopping
		return item
	}
	item.Annotations = maps.Clone(item.Annotations)
	metav1.SetMetaDataAnnotation(&item.ObjectMeta, v1alpha1.AnnotationSpecHash, r.SpecHash)
	item.Status.Reason, item.Status.Message = "", ""
	if old.Annotations[v1alpha1.AnnotationSpecHash] != r.SpecHash {
		// What is known of its status is of an earlier spec.
		item.Status.ObservedGeneration = 0
	}
	return item
}

// afterStopped remembers that nothing up to an epoch runs any more.
func afterStopped(old *v1alpha1.SessionAssignment, r *link.Result) *v1alpha1.SessionAssignment {
	if old != nil && old.Spec.Epoch > r.Epoch {
		return old
	}
	item := remembered(r)
	item.Status.State = v1alpha1.AssignmentStopped
	return item
}

// afterRefused remembers that nothing of an epoch was stored. Where the member
// holds an earlier word on the session, that one goes on: the refusal is only
// noted on it.
func afterRefused(old *v1alpha1.SessionAssignment, r *link.Result) *v1alpha1.SessionAssignment {
	switch {
	case old != nil && awaitsRecording(old) && old.Spec.Epoch >= r.Epoch:
		return old
	case old != nil && !awaitsRecording(old):
		item := old.DeepCopy()
		item.Status.Reason, item.Status.Message = r.Reason, r.Message
		return item
	}
	item := remembered(r)
	item.Status.State = v1alpha1.AssignmentRefused
	item.Status.Reason, item.Status.Message = r.Reason, r.Message
	return item
}

func remembered(r *link.Result) *v1alpha1.SessionAssignment {
	item := &v1alpha1.SessionAssignment{}
	item.Namespace, item.Name = r.Namespace, r.Name
	if r.SpecHash != "" {
		item.Annotations = map[string]string{v1alpha1.AnnotationSpecHash: r.SpecHash}
	}
	item.Spec.Session.UID = r.SessionUID
	item.Spec.Epoch = r.Epoch
	return item
}
