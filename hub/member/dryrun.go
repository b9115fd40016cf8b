package member

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"k8s.io/apimachinery/pkg/types"
)

// Inquiry asks where sessions would go, without placing any.
type Inquiry struct {
	// Request of the first of them. Where it has a seat it is asked as if the
	// session were to be rescheduled.
	Request placement.Request
	// Count of them; less than 1 is 1. The others are like the first, but have no
	// home and were refused by no member.
	Count int
	// DistinctUsers: each is of a user of his own, for caps per user.
	DistinctUsers bool
	// Held: the first would not be placed now whatever capacity there is.
	Held bool
}

// Review is the answer to an Inquiry.
type Review struct {
	// First is the decision on the first of them, with a verdict on every member.
	First placement.Decision
	// Stuck is the decision on the first of them that fits nowhere; nil: all fit
	// that were asked.
	Stuck *placement.Decision
	// Placed would be, Waiting would not, and Unasked are those that there was no
	// time for.
	Placed, Waiting, Unasked int
	// Sessions of them that would go to each member.
	Sessions map[types.UID]int
	// Ages of the members' reports, by the hub's receive clock; a member that is
	// not in it has made none.
	Ages map[types.UID]time.Duration
}

// Review says where sessions would go. It reads the fleet under the lock, in a
// time that grows with the members alone, and tries on a copy what they would
// take: decisions are neither held up nor changed. It ends early with the
// context.
func (f *DryRuns) Review(ctx context.Context, in Inquiry) Review {
	t := f.trial(in.Request)
	req := in.Request
	req.Counts = t.counts
	out := Review{First: placement.Explain(req, t.candidates, t.ledger), Ages: t.ages, Sessions: t.sessions}
	count := max(in.Count, 1)
	if t.hold != nil {
		t.hold.Verdicts = out.First.Verdicts
		out.First, out.Stuck, out.Waiting = *t.hold, t.hold, count
		return out
	}
	if in.Held {
		out.Waiting = 1
	} else {
		t.note(&out, &req, out.First)
	}
	req.Home, req.Refused, req.Seat = nil, nil, nil
	for n := 2; n <= count; n++ {
		if ctx.Err() != nil {
			out.Unasked = count - out.Placed - out.Waiting
			break
		}
		req.UID = types.UID(fmt.Sprintf("%s/%d", in.Request.UID, n))
		req.Counts = t.counts
		if in.DistinctUsers {
			req.Counts.User = 0
		}
		d := placement.Place(req, t.candidates, t.ledger)
		t.note(&out, &req, d)
		if !d.Placed {
			// Those after it ask for the same, and there is no more for them.
			out.Waiting += count - n
			break
		}
	}
	return out
}

// trial is a copy of what decisions are made from, to try some on.
type trial struct {
	candidates []placement.Candidate
	// at is where in candidates a member is.
	at     map[types.UID]int
	ledger *placement.Ledger
	counts placement.Counts
	ages   map[types.UID]time.Duration
	// hold says why nothing at all is placed now; nil: it is.
	hold *placement.Decision
	// sessions that were tried, by member.
	sessions map[types.UID]int
}

// trial copies the fleet for a session, as if nothing had been decided on it but
// the seat that it has.
func (f *DryRuns) trial(req placement.Request) *trial {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	sits := func(member types.UID) bool { return req.Seat != nil && req.Seat.Cluster == member }
	t := &trial{
		candidates: f.candidates(), at: make(map[types.UID]int, len(f.members)),
		ledger:   f.ledger.Sketch(req.UID, sits),
		ages:     make(map[types.UID]time.Duration, len(f.members)),
		sessions: map[types.UID]int{},
		counts:   f.countsFor(req),
	}
	if d, wait := f.awaitsReports(now); wait {
		t.hold = &d
	}
	for i := range t.candidates {
		t.at[t.candidates[i].UID] = i
	}
	for uid, m := range f.uids {
		if m.capacity != nil {
			t.ages[uid] = now.Sub(m.reportedAt)
		}
	}
	if d, ok := f.placed.decided[req.UID]; ok && !d.again() && !sits(d.member) {
		if i, ok := t.at[d.member]; ok {
			t.candidates[i].Sessions--
		}
	}
	return t
}

// note writes down a decision, and takes the capacity that it gives.
func (t *trial) note(out *Review, req *placement.Request, d placement.Decision) {
	if !d.Placed {
		out.Waiting++
		if out.Stuck == nil {
			out.Stuck = &d
		}
		return
	}
	member := d.Cluster.UID
	out.Placed++
	t.sessions[member]++
	t.counts.Total++
	t.counts.User++
	t.counts.Namespace++
	t.counts.Clusters[member]++
	stays := req.Seat != nil && req.Seat.Cluster == member
	if !stays {
		t.candidates[t.at[member]].Sessions++
	}
	if !stays || !req.Seat.Taken {
		t.ledger.ReserveFor(req.UID, 1, member, req.Template, req.Resources)
	}
}

// Slots returns how many more sessions that ask what a request asks fit in these
// members together (in all of them, if nil), up to most. Nothing is reserved.
func (f *DryRuns) Slots(req placement.Request, members []types.UID, most int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	if _, wait := f.awaitsReports(now); wait {
		return 0
	}
	putBack := f.counted(&req)
	defer putBack()
	if members == nil {
		return placement.Room(req, f.candidates(), f.ledger, most)
	}
	candidates := make([]placement.Candidate, 0, len(members))
	for _, uid := range members {
		if m := f.uids[uid]; m != nil {
			candidates = append(candidates, f.candidate(m, now))
		}
	}
	return placement.Room(req, candidates, f.ledger, most)
}

// ResumeSlots returns how many suspended sessions of a member may run there again,
// of those that ask what a request asks, up to most.
func (f *DryRuns) ResumeSlots(req placement.Request, member types.UID, most int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	m := f.uids[member]
	if _, wait := f.awaitsReports(now); wait || m == nil {
		return 0
	}
	c := f.candidate(m, now)
	c.SessionCap = nil // they are of those that the member holds
	return placement.Room(req, []placement.Candidate{c}, f.ledger, most)
}

// maxAtOnce is how many sessions are judged under one hold of the fleet's
// lock: with a thousand members that is a few milliseconds, for which decisions
// wait.
const maxAtOnce = 8

// Misplaced counts the sessions that would be placed in another member today,
// were each of them rescheduled and all others left where they are. Each is
// placed where its request's Seat says. One that would fit nowhere is not
// counted, nor is one whose member is not ready, which says nothing of where it
// belongs. It decides nothing, and is false where it can't be told: the context
// ended, or the fleet waits for its members' reports.
func (f *DryRuns) Misplaced(ctx context.Context, requests []placement.Request) (n int, ok bool) {
	for some := range slices.Chunk(requests, maxAtOnce) {
		m, ok := f.misplaced(some)
		if !ok || ctx.Err() != nil {
			return 0, false
		}
		n += m
	}
	return n, true
}

func (f *DryRuns) misplaced(requests []placement.Request) (n int, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, wait := f.awaitsReports(f.clock.Now()); wait {
		return 0, false
	}
	candidates := f.candidates()
	away := func(member types.UID) bool {
		return slices.ContainsFunc(candidates, func(c placement.Candidate) bool { return c.UID == member && !c.Ready })
	}
	for _, req := range requests {
		if away(req.Seat.Cluster) {
			continue
		}
		putBack := f.counted(&req)
		d := placement.Place(req, candidates, f.ledger)
		putBack()
		if d.Placed && d.Cluster.UID != req.Seat.Cluster {
			n++
		}
	}
	return n, true
}
