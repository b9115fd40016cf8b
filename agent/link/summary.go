package link

import (
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// Held is an assignment in the member's API server, with the version in the cache.
type Held struct {
	Ref
	// Version is the resource version. Without one it is rendered each time.
	Version string
}

// Summary is the digests of all assignments in the member's API server. It renders again
// only what has another version than before, so that it can be updated with every
// renewal. It is pure and not safe for concurrent use. The zero value is empty.
type Summary struct {
	items    map[Ref]summed
	assigned uint64
	// round is higher with each update, and finds the assignments that are gone.
	round uint64
}

type summed struct {
	version        string
	hash, assigned uint64
	round          uint64
}

// Update makes it the summary of what is listed.
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

// Hash returns what an assignment adds to the digest of the reported set.
func (s *Summary) Hash(ref Ref) (uint64, bool) {
	item, ok := s.items[ref]
	return item.hash, ok
}

// Assigned returns the digest of the assigned set, and how many there are.
func (s *Summary) Assigned() (sum uint64, assignments int) { return s.assigned, len(s.items) }
