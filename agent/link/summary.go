package link

import (
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// Held is an assignment that the member's API server holds, and in which
// version the cache has it.
type Held struct {
	Ref
	// Version is the resource version; empty: not known, so that it is rendered
	// each time.
	Version string
}

// Summary sums up all that the member's API server holds. It renders again only
// what has another version than before, so that it can be brought up to date
// with every renewal. It is pure and not safe for concurrent use. The zero
// value is that of nothing.
type Summary struct {
	items    map[Ref]summed
	assigned uint64
	// round tells those that are listed from those that are not any more.
	round uint64
}

type summed struct {
	version        string
	hash, assigned uint64
	round          uint64
}

// Update makes the summary one of what is listed.
func (s *Summary) Update(listed []Held, render Render) {
	if s.items == nil {
		s.items = make(map[Ref]summed, len(listed))
	}
	s.round++
	kept := 0
	for _, held := range listed {
		item, known := s.items[held.Ref]
		if !known || held.Version == "" || item.version != held.Version {
			s.assigned -= item.assigned
			r := fitting(render(held.Ref))
			if r == nil {
				// Gone since it was listed.
				delete(s.items, held.Ref)
				continue
			}
			r.ReportHash = convert.ReportHash(r)
			item = summed{
				version: held.Version, hash: hashOf(r),
				assigned: convert.AssignedHash(r.GetSessionUid(), r.GetEpoch(), r.GetSpecHash()),
			}
			s.assigned += item.assigned
		}
		item.round = s.round
		s.items[held.Ref] = item
		kept++
	}
	if len(s.items) == kept {
		return
	}
	for ref, item := range s.items {
		if item.round != s.round {
			s.assigned -= item.assigned
			delete(s.items, ref)
		}
	}
}

// Hash is what an assignment adds to the digest of the reported set.
func (s *Summary) Hash(ref Ref) (uint64, bool) {
	item, ok := s.items[ref]
	return item.hash, ok
}

// Assigned is the digest of the assigned set, and how many there are.
func (s *Summary) Assigned() (sum uint64, assignments int) { return s.assigned, len(s.items) }
