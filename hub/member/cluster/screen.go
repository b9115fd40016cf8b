package cluster

import (
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Screen bounds an inventory while its pages arrive: no cache has them before the last one.
// Its bounds are those of the cache.
type Screen struct {
	Bounds
	isKnown func(session types.UID, epoch int64, proof string) bool
	known   map[types.UID]struct{}
	orphans int
	bytes   int
}

// NewScreen returns a screen for a new inventory.
func NewScreen(p *Cache) *Screen {
	return &Screen{Bounds: p.Bounds, isKnown: p.quota.isKnown, known: map[types.UID]struct{}{}}
}

// Page removes the status of orphans beyond MaxVisible, and returns an error if there are
// too many orphans or too many bytes.
func (s *Screen) Page(items []*fleetv1.AssignmentReport) error {
	for _, item := range items {
		session := types.UID(item.GetSessionUid())
		_, again := s.known[session]
		if !again && (s.isKnown == nil || s.isKnown(session, item.GetEpoch(), item.GetProof())) {
			s.known[session] = struct{}{}
		} else if s.orphans++; s.orphans > s.MaxVisible {
			item.Status = nil
		}
		s.bytes += proto.Size(item)
	}
	switch {
	case s.orphans > s.MaxOrphans:
		return exceeded("%d assignments that the hub did not place there", s.MaxOrphans)
	case s.bytes > s.MaxBytes:
		return exceeded("%d MiB of status", s.MaxBytes>>20)
	}
	return nil
}
