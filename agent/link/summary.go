package link

import (
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// InventoryItem is an assignment in the member's API server.
type InventoryItem struct {
	Ref
	// Version is the resource version in the cache. Without one it is rendered each time.
	Version string
}

// Summary has the digests of all assignments in the member's API server. An update renders
// only the assignments whose version has changed, so that each renewal can update it. It is
// pure and not safe for concurrent use. The zero value is empty.
type Summary struct {
	items    map[Ref]summaryItem
	assigned uint64
}

type summaryItem struct {
	version        string
	hash, assigned uint64
}

// Update sets the listed assignments.
func (s *Summary) Update(listed []InventoryItem, render Render) {
	before := s.items
	*s = Summary{items: make(map[Ref]summaryItem, len(listed))}
	for _, l := range listed {
		item, known := before[l.Ref]
		if !known || l.Version == "" || item.version != l.Version {
			r := limitSize(render(l.Ref))
			if r == nil {
				continue // deleted since
			}
			r.ReportHash = convert.ReportHash(r)
			item = summaryItem{
				version: l.Version, hash: hashOf(r),
				assigned: convert.AssignedHash(r.GetSessionUid(), r.GetEpoch(), r.GetSpecHash()),
			}
		}
		s.items[l.Ref] = item
		s.assigned += item.assigned
	}
}

// Hash returns an assignment's contribution to the digest of the reported set.
func (s *Summary) Hash(ref Ref) (uint64, bool) {
	item, ok := s.items[ref]
	return item.hash, ok
}

// Assigned returns the digest and the size of the assigned set.
func (s *Summary) Assigned() (sum uint64, assignments int) { return s.assigned, len(s.items) }
