package member

import (
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// screen bounds an inventory while its pages come in: until the last one they
// are in no cache. It goes by what the cache goes by.
type screen struct {
	bounds
	knows   func(session types.UID, epoch int64, proof string) bool
	known   map[types.UID]struct{}
	orphans int
	bytes   int
}

func newScreen(p *picture) *screen {
	return &screen{bounds: p.bounds, knows: p.knows, known: map[types.UID]struct{}{}}
}

// page takes the status off what is not of a session that the hub knows, beyond
// a few, and refuses what is too much of either.
func (s *screen) page(items []*fleetv1.AssignmentReport) error {
	for _, item := range items {
		session := types.UID(item.GetSessionUid())
		_, again := s.known[session]
		if !again && (s.knows == nil || s.knows(session, item.GetEpoch(), item.GetProof())) {
			s.known[session] = struct{}{}
		} else if s.orphans++; s.orphans > s.maxVisible {
			item.Status = nil
		}
		s.bytes += proto.Size(item)
	}
	switch {
	case s.orphans > s.maxOrphans:
		return exceeded("%d assignments that the hub did not place there", s.maxOrphans)
	case s.bytes > s.maxBytes:
		return exceeded("%d MiB of status", s.maxBytes>>20)
	}
	return nil
}
