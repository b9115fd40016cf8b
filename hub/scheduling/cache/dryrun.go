package cache

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// DryRun is a dry run of the placement of sessions.
type DryRun struct {
	// Request of the first session. With a Current placement the dry run reschedules that
	// session.
	Request placement.Request
	// Count of the sessions; default and minimum 1. The others equal the first, but have no
	// home and no refusals.
	Count int32
	// DistinctUsers is set if each session has a different user, for caps per user.
	DistinctUsers bool
	// Held is set if the first session would not be placed now, even with free capacity.
	Held bool
}

// Review returns where sessions would be placed, with a verdict on every member. It holds the
// cache's lock for a time that grows with the number of members only, and reserves on a copy:
// it neither delays nor changes decisions. It ends early with the context.
func (c *Cache) Review(ctx context.Context, in DryRun) v1alpha1.PlacementReviewStatus {
	t := c.trial(in.Request)
	req := in.Request
	req.Counts = t.counts
	first := placement.Explain(req, t.candidates, t.ledger)
	t.Reason, t.Message, t.Clusters = first.Reason, first.Message, first.Verdicts
	count := max(in.Count, 1)
	switch {
	case t.hold != nil:
		t.Reason, t.Message, t.Waiting = t.hold.Reason, t.hold.Message, count
		return t.result()
	case in.Held:
		t.Waiting = 1
	default:
		t.record(&req, first)
	}
	req.Home, req.Refused, req.RefusedFree, req.Current = nil, nil, nil, nil
	for n := int32(2); n <= count; n++ {
		if ctx.Err() != nil {
			t.NotTried = count - t.Placed - t.Waiting
			break
		}
		req.UID = types.UID(fmt.Sprintf("%s/%d", in.Request.UID, n))
		req.Counts = t.counts
		if in.DistinctUsers {
			req.Counts.User = 0
		}
		d := placement.Place(req, t.candidates, t.ledger)
		t.record(&req, d)
		if !d.Placed {
			// The sessions after it are equal, and don't fit either.
			t.Waiting += count - n
			break
		}
	}
	return t.result()
}

// trial is a copy of the placement state for a dry run, with its result so far.
type trial struct {
	v1alpha1.PlacementReviewStatus
	// unschedulable is set if the result has the reason why a session fits nowhere.
	unschedulable bool
	now           time.Time
	candidates    []placement.Candidate
	// at is the index of each member in candidates, and sessions the number of sessions that
	// would be placed there.
	at       map[types.UID]int
	sessions map[types.UID]int32
	ledger   *placement.Ledger
	counts   placement.Counts
	// hold is the decision if no session is placed now, else nil.
	hold *placement.Decision
}

// trial copies the fleet for a session, without decisions on it other than its current
// placement.
func (c *Cache) trial(req placement.Request) *trial {
	c.mu.Lock()
	defer c.mu.Unlock()
	fleet := c.snapshot(nil)
	isCurrent := func(member types.UID) bool { return req.Current != nil && req.Current.Cluster == member }
	t := &trial{
		now: fleet.Now, candidates: slices.Clone(fleet.Candidates), at: make(map[types.UID]int, len(fleet.Candidates)),
		sessions: map[types.UID]int32{},
		ledger:   c.ledger.CopyFor(req.UID, isCurrent),
		counts:   c.placed.countsFor(req),
		hold:     fleet.Awaits,
	}
	for i := range t.candidates {
		t.at[t.candidates[i].UID] = i
	}
	if d, ok := c.placed.decided[req.UID]; ok && !d.again() && !isCurrent(d.member) {
		if i, ok := t.at[d.member]; ok {
			t.candidates[i].Sessions--
		}
	}
	return t
}

// record records a decision, and reserves its capacity.
func (t *trial) record(req *placement.Request, d placement.Decision) {
	if !d.Placed {
		t.Waiting++
		if !t.unschedulable {
			t.unschedulable, t.Reason, t.Message = true, d.Reason, d.Message
		}
		return
	}
	member := d.Cluster.UID
	t.Placed++
	switch d.Kind {
	case placement.Free:
	case placement.Provisioning:
		t.PlacedProvisioning++
	case placement.Growable:
		t.PlacedGrowable++
	}
	t.sessions[member]++
	t.counts.Total++
	t.counts.User++
	t.counts.Namespace++
	t.counts.Clusters[member]++
	stays := req.Current != nil && req.Current.Cluster == member
	if !stays {
		t.candidates[t.at[member]].Sessions++
	}
	if !stays || !req.Current.UsesCapacity {
		t.ledger.ReserveFor(req.UID, 1, member, req.Template, req.Resources)
	}
}

// result adds the sessions of each member, and the ages of the members' reports by the hub's
// receive clock, to the verdicts.
func (t *trial) result() v1alpha1.PlacementReviewStatus {
	for i := range t.Clusters {
		v := &t.Clusters[i]
		v.Sessions = t.sessions[v.ClusterUID]
		if x := &t.candidates[t.at[v.ClusterUID]]; x.Capacity != nil {
			v.CapacityAge = v1alpha1.DurationOf(t.now.Sub(x.ReportedAt))
		}
	}
	return t.PlacementReviewStatus
}

// Slots returns how many more sessions with a request fit in these members together (in all
// of them, if nil), up to most. Nothing is reserved.
func (c *Cache) Slots(req placement.Request, members []types.UID, most int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	fleet := c.snapshot(members)
	if fleet.Awaits != nil {
		return 0
	}
	restore := c.placed.counted(&req)
	defer restore()
	return placement.Slots(req, fleet.Candidates, c.ledger, most)
}

// ResumeSlots returns how many suspended sessions of a member, with this request, fit there
// again, up to most.
func (c *Cache) ResumeSlots(req placement.Request, member types.UID, most int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	fleet := c.snapshot([]types.UID{member})
	if fleet.Awaits != nil || len(fleet.Candidates) == 0 {
		return 0
	}
	fleet.Candidates[0].SessionCap = nil // they count in the member already
	return placement.Slots(req, fleet.Candidates, c.ledger, most)
}

// Misplaced counts the sessions that would be placed in another member if each of them
// alone were rescheduled now. Each is placed where its request's Current placement is. A
// session that would fit nowhere is not counted, nor is one whose member is not ready. It
// decides nothing, and returns false if the result is not available: the context ended,
// or the fleet still waits for its members' reports. It delays a decision by one at most.
func (c *Cache) Misplaced(ctx context.Context, requests []placement.Request) (n int, ok bool) {
	for i := range requests {
		misplaced, ok := c.misplaced(requests[i])
		if !ok || ctx.Err() != nil {
			return 0, false
		}
		if misplaced {
			n++
		}
	}
	return n, true
}

func (c *Cache) misplaced(req placement.Request) (misplaced, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fleet := c.snapshot(nil)
	if fleet.Awaits != nil {
		return false, false
	}
	if slices.ContainsFunc(fleet.Candidates, func(x placement.Candidate) bool { return x.UID == req.Current.Cluster && !x.Ready }) {
		return false, true
	}
	req.FreeOnly = true // it would not be moved to a node that must be added first
	restore := c.placed.counted(&req)
	d := placement.Place(req, fleet.Candidates, c.ledger)
	restore()
	return d.Placed && d.Cluster.UID != req.Current.Cluster, true
}
