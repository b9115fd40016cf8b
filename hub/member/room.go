package member

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// Room is how many more sessions that ask what a request asks fit in these
// members together, nil: in all, up to most. Nothing is reserved.
func (f *DryRuns) Room(req placement.Request, members []types.UID, most int64) int64 {
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

// RoomAgain is how many sessions that lie idle in a member may run there again,
// of those that ask what a request asks, up to most.
func (f *DryRuns) RoomAgain(req placement.Request, member types.UID, most int64) int64 {
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

// ReportedAt is when a member's last report of its capacity came.
func (f *Registry) ReportedAt(member types.UID) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.uids[member]; m != nil {
		return m.reportedAt
	}
	return time.Time{}
}
