package member

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// judgedAtOnce is how many sessions are judged under one hold of the fleet's
// lock: with a thousand members that is a few milliseconds, for which decisions
// wait.
const judgedAtOnce = 8

// Elsewhere counts the sessions that would be placed in another member today,
// were each of them placed anew and all others left where they are. Each is
// placed where its request's Seat says. One that would fit nowhere is not
// counted, nor is one whose member is not ready, which says nothing of where it
// belongs. It decides nothing, and is false where it can't be told: the context
// ended, or the fleet waits for its members' reports.
func (f *DryRuns) Elsewhere(ctx context.Context, requests []placement.Request) (n int, ok bool) {
	for some := range slices.Chunk(requests, judgedAtOnce) {
		m, ok := f.elsewhere(some)
		if !ok || ctx.Err() != nil {
			return 0, false
		}
		n += m
	}
	return n, true
}

func (f *DryRuns) elsewhere(requests []placement.Request) (n int, ok bool) {
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
