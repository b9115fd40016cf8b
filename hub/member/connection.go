package member

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/cluster"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// connection is a member as one connection sees it (link.Member). What a
// connection says after it was replaced no longer counts (promise 2).
type connection struct {
	fleet  *state
	member *member
	peer   link.Peer
	// screened is what the pages of the inventory that is coming in have said so
	// far; nil between inventories. Only the stream's receiver has it.
	screened *cluster.Screen
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

// onCache runs f on the member's cache and returns whether the connection was
// the member's when it began. The fleet's lock is not held meanwhile: what takes
// long there keeps no other member's lease renewal waiting.
//
// A connection that is replaced while f runs is none the worse: applying makes
// its successor wait, and all of this came before it.
func (c *connection) onCache(f func(*cluster.Cache)) bool {
	c.member.applying.Lock()
	defer c.member.applying.Unlock()
	if !c.current(func(*member) {}) {
		return false
	}
	f(c.member.cluster.Cache)
	if err := c.member.cluster.Cache.TakeExcess(); err != nil {
		c.peer.Close(err)
		return false
	}
	return true
}

// Screen bounds a page of an inventory before its pages are put together
// (link.Member).
func (c *connection) Screen(page *fleetv1.Inventory) error {
	if c.screened == nil {
		c.screened = cluster.NewScreen(c.member.cluster.Cache)
	}
	err := c.screened.Page(page.GetItems())
	if page.GetLast() {
		c.screened = nil
	}
	return err
}

// Differing compares what the member holds with what is remembered of it.
func (c *connection) Differing(theirs *convert.Digest) (differ convert.BucketSet) {
	c.onCache(func(cache *cluster.Cache) { differ = cache.Differing(theirs) })
	return differ
}

// Part takes all that the member holds in some buckets. All else is as it was,
// so that the whole is known now.
func (c *connection) Part(buckets convert.BucketSet, items []protocol.Report) {
	serving := false
	c.current(func(m *member) { serving = m.serving })
	c.applyInventory(len(items), func(cache *cluster.Cache) int { return cache.Replace(buckets, items, serving) }, !serving)
}

// applyInventory has the cache take an inventory, which begins the member's service or is
// of a resync, and what is placed there and what the member reports compared
// again. It counts the stale ones of so many items.
func (c *connection) applyInventory(items int, take func(*cluster.Cache) (stale int), begins bool) {
	stale := 0
	ok := c.onCache(func(cache *cluster.Cache) { stale = take(cache) })
	countStale(ok, stale, items)
	// The engagement of a member that begins is announced by itself.
	synced := c.member.cluster.Synced.Load()
	if ok && begins {
		ok = c.begin(c.member.cluster.Cache.Held())
	}
	if ok && synced {
		c.fleet.notify(c.member.change(MemberConnected))
	}
}

// heldAtOnce are the assignments that are looked up in the ledger under one hold
// of the fleet's lock.
const heldAtOnce = 500

// begin serves a member whose inventory is in. The capacity report that follows
// counts all that it holds.
func (c *connection) begin(held []*v1alpha1.SessionAssignment) bool {
	for some := range slices.Chunk(held, heldAtOnce) {
		if !c.current(func(m *member) {
			for _, item := range some {
				c.fleet.ledger.CountedFrom(item.Spec.Session.UID, item.Spec.Epoch, m.uid, item.Annotations[v1alpha1.AnnotationSpecHash], 1)
			}
		}) {
			return false
		}
	}
	return c.current(func(m *member) {
		m.serving, m.agreement = true, ""
		if !m.cluster.Synced.Load() {
			c.fleet.Engage(m.cluster)
		}
	})
}

// Changes takes the newest status of some assignments.
func (c *connection) Changes(items []protocol.Report) {
	stale := 0
	ok := c.onCache(func(cache *cluster.Cache) { stale = cache.Apply(items) })
	countStale(ok, stale, len(items))
}

// Sums are the digests of what is believed of the member.
func (c *connection) Sums() protocol.Sums { return c.member.cluster.Cache.Sums() }

// Agreed notes whether both sides agree on what the member holds.
func (c *connection) Agreed(agreement protocol.Agreement) {
	changed := false
	c.current(func(m *member) { changed, m.agreement = m.agreement != agreement, agreement })
	if changed {
		c.fleet.notify(c.member.change(MemberChanged))
	}
}

// Results takes what became of orders.
func (c *connection) Results(results []protocol.Result) {
	freed := false
	for i := range results {
		r := &results[i]
		ok := c.current(func(m *member) { c.fleet.settle(m, r) })
		known := true
		ok = ok && c.onCache(func(cache *cluster.Cache) { known = cache.ApplyResult(r) })
		unknownResults.Add(float64(count(!known)))
		if ok && r.Code != protocol.Stored {
			freed = true
		}
	}
	if freed {
		c.fleet.notify(c.member.change(MemberCapacity))
	}
}

// Capacity takes the capacity report of the member. The report is read apart from the
// fleet's lock, as reports are.
func (c *connection) Capacity(report *fleetv1.CapacityReport) {
	c.member.applying.Lock()
	defer c.member.applying.Unlock()
	var before reportedCapacity
	var asked templateKeys
	ok := c.current(func(m *member) { before, asked = m.reportedCapacity, c.fleet.asked })
	if !ok {
		return
	}
	took, err := before.take(report, asked)
	if err != nil {
		c.peer.Close(err)
		return
	}
	ok = c.current(func(m *member) {
		if !took.counts {
			return
		}
		m.reportedCapacity = took.reportedCapacity
		m.reported, m.reportedAt = true, c.fleet.clock.Now()
		c.fleet.ledger.Reported(m.uid, report.GetSequence())
	})
	if ok && !took.counts {
		log.Log.WithName("fleet").Info("Changes of a capacity report are left aside, of which the hub has none or another",
			"member", c.member.name, "basedOn", report.GetBasedOn(), "sequence", report.GetSequence())
	}
	if ok && took.changed {
		c.fleet.notify(c.member.change(MemberCapacity))
	}
	if ok && len(took.templates) > 0 {
		c.fleet.notify(Change{Kind: MemberTemplates, Member: c.member.name, UID: c.member.uid, Templates: took.templates})
	}
}

// Closed says that the connection is over, for whatever reason.
func (c *connection) Closed(err error) {
	ok := c.current(func(m *member) { m.ended(c.fleet.timings, c.fleet.now(), err) })
	if !ok {
		return
	}
	log.Log.WithName("fleet").Info("Agent disconnected", "member", c.member.name, "reason", err)
	c.fleet.notify(c.member.change(MemberChanged))
}

// settle writes a result into the ledger, which has entries of the hub's own
// making alone. The caller holds the lock.
func (f *state) settle(m *member, r *protocol.Result) {
	switch {
	case r.Code != protocol.Stored:
		delete(m.withdrawals.held, r.SessionUID)
		f.ledger.Release(r.SessionUID, r.Epoch, m.uid)
	case r.SpecHash != "":
		f.ledger.CountedFrom(r.SessionUID, r.Epoch, m.uid, r.SpecHash, countedFrom(m, r))
	}
	placementResults.WithLabelValues(string(r.Code)).Inc()
}

// countedFrom is which report counts what was stored: an agent that does not
// say will have it in its next.
func countedFrom(m *member, r *protocol.Result) uint64 {
	switch {
	case r.CountedFrom > 0:
		return r.CountedFrom
	case m.capacity != nil:
		return m.capacity.Sequence + 1
	}
	return 1
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
