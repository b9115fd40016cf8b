package fleet

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
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

// Inventory takes the whole of what the member holds.
func (c *connection) Inventory(items []*v1alpha1.SessionAssignment) {
	c.told(len(items), func(m *member) int {
		stale := m.pic.Replace(items)
		c.begin(m, items)
		return stale
	})
}

// Differing compares what the member holds with what is remembered of it.
func (c *connection) Differing(theirs *convert.Digest) (differ convert.BucketSet) {
	c.current(func(m *member) { differ = m.pic.Differing(theirs) })
	return differ
}

// Part takes all that the member holds in some buckets. All else is as it was,
// so that the whole is known now.
func (c *connection) Part(buckets convert.BucketSet, items []link.Report) {
	c.told(len(items), func(m *member) int {
		stale := m.pic.ReplaceIn(buckets, items, m.serving)
		if !m.serving {
			c.begin(m, m.pic.Held())
		}
		return stale
	})
}

// told runs f as current does, and has what is placed there and what the member
// reports compared anew. It counts the stale items that f found, of so many.
func (c *connection) told(items int, f func(m *member) (stale int)) {
	synced, stale := false, 0
	ok := c.current(func(m *member) {
		stale = f(m)
		synced = m.synced
	})
	countStale(ok, stale, items)
	if ok && synced {
		c.fleet.tell(Change{Kind: MemberConnected, Member: c.member.name, UID: c.member.uid})
	}
}

// begin serves a member whose inventory is in. The capacity report that follows
// counts all that it holds.
func (c *connection) begin(m *member, held []*v1alpha1.SessionAssignment) {
	for _, item := range held {
		c.fleet.ledger.CountedFrom(item.Spec.Session.UID, item.Spec.Epoch, m.uid, item.Annotations[v1alpha1.AnnotationSpecHash], 1)
	}
	m.serving, m.agreement = true, ""
	if !m.synced {
		c.fleet.await(m)
	}
}

// Reports takes the newest status of some assignments.
func (c *connection) Reports(items []*v1alpha1.SessionAssignment) {
	stale := 0
	ok := c.current(func(m *member) { stale = m.pic.Apply(items...) })
	countStale(ok, stale, len(items))
}

// Changes takes the newest status of some assignments.
func (c *connection) Changes(items []link.Report) {
	stale := 0
	ok := c.current(func(m *member) { stale = m.pic.Tell(items) })
	countStale(ok, stale, len(items))
}

// Sums are the digests of what is believed of the member.
func (c *connection) Sums() link.Sums { return c.member.pic.Sums() }

// Agreed notes whether both sides agree on what the member holds.
func (c *connection) Agreed(agreement link.Agreement) {
	changed := false
	c.current(func(m *member) { changed, m.agreement = m.agreement != agreement, agreement })
	if changed {
		c.fleet.tell(Change{Kind: MemberChanged, Member: c.member.name, UID: c.member.uid})
	}
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
	var took taken
	ok := c.current(func(m *member) {
		if took = m.takeRoom(report); !took.counts {
			return
		}
		m.reported, m.reportedAt = true, c.fleet.clock.Now()
		c.fleet.ledger.Reported(m.uid, report.GetSequence())
	})
	if ok && !took.counts {
		log.Log.WithName("fleet").Info("Changes of a capacity report are left aside, of which the hub has none or another",
			"member", c.member.name, "basedOn", report.GetBasedOn(), "sequence", report.GetSequence())
	}
	if ok && took.news {
		c.fleet.tell(Change{Kind: MemberRoom, Member: c.member.name, UID: c.member.uid})
	}
	if ok && len(took.judged) > 0 {
		c.fleet.tell(Change{Kind: MemberVerdicts, Member: c.member.name, UID: c.member.uid, Templates: took.judged})
	}
}

// Closed says that the connection is over, for whatever reason.
func (c *connection) Closed(err error) {
	ok := c.current(func(m *member) { m.ended(c.fleet.timings, c.fleet.look(), err) })
	if !ok {
		return
	}
	log.Log.WithName("fleet").Info("Agent disconnected", "member", c.member.name, "reason", err)
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
	if old != nil && old.Spec.Epoch == r.Epoch && old.Spec.Session.UID == r.SessionUID {
		// A hub that has forgotten the epoch takes its number all the same.
		item.Spec.Proof = old.Spec.Proof
	}
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
