package fleet

import (
	"maps"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// takeRoom takes what room a member reports to have. counts is false for changes of a
// report that the hub does not have: the next whole one, which comes soon, tells
// all. news is false for one that was told before: an agent says now and then
// whole what it has said already.
func (m *member) takeRoom(r *fleetv1.CapacityReport) (counts, news bool) {
	changes := r.GetBasedOn() != 0
	known := m.fresh && m.capacity != nil
	if changes && (!known || m.capacity.Sequence != r.GetBasedOn()) {
		return false, false
	}
	news = !known || m.capacity.Sequence != r.GetSequence()
	capacity, slots := capacityFromWire(r), slotsFromWire(r)
	if changes {
		capacity.Templates, slots = over(m.capacity.Templates, capacity.Templates), over(m.slots, slots)
	}
	m.capacity, m.slots, m.fresh = capacity, slots, true
	return true, news
}

// over is one map laid over another; neither is changed.
func over[K comparable, V any](below, above map[K]V) map[K]V {
	out := maps.Clone(below)
	if out == nil {
		return above
	}
	maps.Copy(out, above)
	return out
}
