package fleet

import (
	"maps"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// taken is what became of a capacity report.
type taken struct {
	// counts is false for changes of a report that the hub does not have: the next
	// whole one, which comes soon, tells all.
	counts bool
	// news is false for one that was told before: an agent says now and then whole
	// what it has said already.
	news bool
	// judged are the templates that can run there now and could not before, or the
	// other way round, or can't for another reason.
	judged []placement.TemplateKey
}

// takeRoom takes what room a member reports to have.
func (m *member) takeRoom(r *fleetv1.CapacityReport) taken {
	changes := r.GetBasedOn() != 0
	known := m.fresh && m.capacity != nil
	if changes && (!known || m.capacity.Sequence != r.GetBasedOn()) {
		return taken{}
	}
	news := !known || m.capacity.Sequence != r.GetSequence()
	capacity, slots := capacityFromWire(r), slotsFromWire(r)
	if changes {
		capacity.Templates, slots = over(m.capacity.Templates, capacity.Templates), over(m.slots, slots)
	}
	judged := judgedAnew(m.capacity, capacity)
	m.capacity, m.slots, m.fresh = capacity, slots, true
	return taken{true, news, judged}
}

// judgedAnew are the templates on which the verdict differs. before may be nil.
func judgedAnew(before, now *placement.Capacity) []placement.TemplateKey {
	var out []placement.TemplateKey
	for key := range now.Templates {
		is := now.Templates[key]
		var was placement.TemplateCapacity
		if before != nil {
			was = before.Templates[key]
		}
		if is.Available != was.Available || is.Reason != was.Reason || is.Message != was.Message {
			out = append(out, key)
		}
	}
	return out
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
