package member

import (
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/cluster"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// connection is the link.Member of one connection. The reports of a connection that was
// replaced no longer count (G2).
type connection struct {
	fleet  *state
	member *member
	peer   link.Peer
	// screened bounds the pages of the inventory that is arriving; nil between inventories.
	// Only the stream's receiver uses it.
	screened *cluster.Screen
}

var _ link.Member = &connection{}

// current runs f under the fleet's lock if the connection is still the member's, and
// returns whether it is.
func (c *connection) current(f func(m *member)) bool {
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	if c.member.peer != c.peer {
		return false
	}
	f(c.member)
	c.fleet.unsettle(c.member)
	return true
}

// onCache runs f on the member's cache and returns whether the connection was the member's
// when it began. It does not hold the fleet's lock meanwhile, so that a slow f does not
// delay the lease renewals of other members.
//
// A connection that is replaced while f runs does no harm: applying makes its successor
// wait, and f's changes came before it.
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

// Screen bounds a page of an inventory before its pages are joined (link.Member).
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

// Differing compares the member's inventory with what it last reported.
func (c *connection) Differing(theirs *convert.Digest) (differ convert.BucketSet) {
	c.onCache(func(cache *cluster.Cache) { differ = cache.Differing(theirs) })
	return differ
}

// Part applies the member's inventory of some buckets, either the first of a connection or
// that of a resync, and has placed and reported sessions compared again. The other buckets
// are unchanged, so that the whole inventory is now known.
func (c *connection) Part(buckets convert.BucketSet, items []protocol.Report) {
	serving, stale := false, 0
	c.current(func(m *member) { serving = m.serving })
	ok := c.onCache(func(cache *cluster.Cache) { stale = cache.Replace(buckets, items, serving) })
	countStale(ok, stale, len(items))
	// The first engagement of a member has its own notification.
	synced := c.member.cluster.Synced.Load()
	if ok && !serving {
		ok = c.begin(c.member.cluster.Cache.Held())
	}
	if ok && synced {
		c.fleet.notify(c.member.change(MemberConnected))
	}
}

// begin starts to serve a member whose inventory is complete. The capacity report that
// follows counts all its assignments.
func (c *connection) begin(held []cluster.Held) bool {
	if !c.current(func(*member) {}) {
		return false
	}
	for _, item := range held {
		c.fleet.cache.CountedFrom(item.Session, item.Epoch, c.member.uid, item.Hash, 1)
	}
	return c.current(func(m *member) {
		m.serving, m.agreement = true, ""
		if !m.cluster.Synced.Load() {
			c.fleet.Engage(m.cluster)
		}
	})
}

// Changes applies the newest status of some assignments.
func (c *connection) Changes(items []protocol.Report) {
	stale := 0
	ok := c.onCache(func(cache *cluster.Cache) { stale = cache.Apply(items) })
	countStale(ok, stale, len(items))
}

// Sums returns the digests of the cache.
func (c *connection) Sums() protocol.Sums { return c.member.cluster.Cache.Sums() }

// Agreed records whether both sides agree on the member's assignments.
func (c *connection) Agreed(agreement protocol.Agreement) {
	changed := false
	c.current(func(m *member) { changed, m.agreement = m.agreement != agreement, agreement })
	if changed {
		c.fleet.notify(c.member.change(MemberStream))
	}
}

// Results applies the results of orders.
func (c *connection) Results(results []protocol.Result) {
	freed := false
	for i := range results {
		r := &results[i]
		ok := c.recordResult(r)
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

// CapacitySequence returns the number of the report that the hub has of the agent's process: a report
// of another was forgotten when this one connected.
func (c *connection) CapacitySequence() (sequence uint64) {
	c.current(func(m *member) {
		if m.capacity != nil {
			sequence = m.capacity.Sequence
		}
	})
	return sequence
}

// Capacity applies a capacity report of the member. Like other reports it is read without
// the fleet's lock.
func (c *connection) Capacity(report *fleetv1.CapacityReport) {
	c.member.applying.Lock()
	defer c.member.applying.Unlock()
	var before reportedCapacity
	var requested templateKeys
	ok := c.current(func(m *member) { before, requested = m.reportedCapacity, c.fleet.requested })
	if !ok {
		return
	}
	result, err := before.apply(report, requested)
	if err != nil {
		c.peer.Close(err)
		return
	}
	if result.capacity == nil {
		log.Log.WithName("fleet").Info("Changes of a capacity report are ignored, since the hub has no report or another one before them",
			"member", c.member.name, "basedOn", report.GetBasedOn(), "sequence", report.GetSequence())
		return
	}
	ok = c.current(func(m *member) {
		c.fleet.setCapacity(m, result.capacity)
		m.fresh = true
		m.reportedAt = c.fleet.clock.Now()
		c.fleet.reportedTemplates(m, report, result.capacity)
	})
	if !ok {
		return
	}
	if result.changed || result.capacity != before.capacity {
		// After it is in the snapshot: until then capacity counts twice, rather than not at all.
		c.fleet.cache.Reported(c.member.uid, result.capacity)
	}
	if result.changed {
		c.fleet.notify(c.member.change(MemberCapacity))
	}
	if len(result.templates) > 0 {
		c.fleet.notify(Change{Kind: MemberTemplates, Member: c.member.name, UID: c.member.uid, Templates: result.templates})
	}
}

// Closed records that the connection has ended, for whatever reason.
func (c *connection) Closed(err error) {
	kind := MemberStream
	ok := c.current(func(m *member) {
		now := c.fleet.now()
		before := m.assess(c.fleet.timings, now)
		m.ended(c.fleet.timings, now, err)
		if !before.Same(m.assess(c.fleet.timings, now)) {
			kind = MemberChanged
		}
		c.fleet.recent = recentDegradation{}
	})
	if !ok {
		return
	}
	log.Log.WithName("fleet").Info("Agent disconnected", "member", c.member.name, "reason", err)
	c.fleet.notify(c.member.change(kind))
}

// recordResult records a result of an order for the scheduler, which only has reservations
// that it made, and returns whether the connection is still the member's.
func (c *connection) recordResult(r *protocol.Result) bool {
	c.member.applying.Lock()
	defer c.member.applying.Unlock()
	from := uint64(0)
	if !c.current(func(m *member) {
		from = countedFrom(m, r)
		if r.Code != protocol.Stored {
			delete(m.withdrawals.held, r.SessionUID)
		}
	}) {
		return false
	}
	switch {
	case r.Code != protocol.Stored:
		c.fleet.cache.Ended(r.SessionUID, r.Epoch, c.member.uid)
	case r.SpecHash != "":
		c.fleet.cache.CountedFrom(r.SessionUID, r.Epoch, c.member.uid, r.SpecHash, from)
	}
	placementResults.WithLabelValues(string(r.Code)).Inc()
	return true
}

// countedFrom returns the first report that counts a stored assignment: by default the next
// one.
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
