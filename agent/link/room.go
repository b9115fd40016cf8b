package link

import (
	"time"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// wholeEvery is how often the member's room is told whole, changed or not: so
// the hub knows how old its picture is, and one that lost something has it again.
const wholeEvery = 30 * time.Second

// room is what the hub was told of the member's room on this stream.
type room struct {
	// changes: the hub takes reports of what has changed.
	changes bool
	// due: there may be a newer report than told.
	due  bool
	told *fleetv1.CapacityReport
	// wholeAt is when the next whole report is due.
	wholeAt time.Time
}

// next is the report to send, if there is one: of what has changed since the one
// before, or whole.
func (r *room) next(now time.Time, newest func() *fleetv1.CapacityReport, least uint64) *fleetv1.CapacityReport {
	whole := r.told == nil || !now.Before(r.wholeAt)
	if !r.due && (r.told == nil || !whole) {
		return nil
	}
	r.due = false
	report := newest()
	if report == nil || report.GetSequence() < least {
		return nil
	}
	before := r.told
	r.told = report
	if !whole && r.changes {
		if report.GetSequence() == before.GetSequence() {
			return nil
		}
		if changes := changesOf(before, report); changes != nil {
			return changes
		}
	}
	r.wholeAt = now.Add(wholeEvery)
	return report
}

// wait until the next whole report is due; 0: none is by itself.
func (r *room) wait(now time.Time) time.Duration {
	if r.told == nil {
		return 0
	}
	return max(time.Nanosecond, r.wholeAt.Sub(now))
}

// sooner of two waits, of which 0 is for ever.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

type templateKey struct{ name, revision string }

func keyOf(t *fleetv1.TemplateCapacity) templateKey {
	return templateKey{t.GetName(), t.GetRevision()}
}

// changesOf a report against an earlier one; nil: a template is gone, and that
// only a whole one tells.
func changesOf(before, now *fleetv1.CapacityReport) *fleetv1.CapacityReport {
	known := make(map[templateKey]*fleetv1.TemplateCapacity, len(before.GetTemplates()))
	for _, t := range before.GetTemplates() {
		known[keyOf(t)] = t
	}
	out := &fleetv1.CapacityReport{
		Sequence: now.GetSequence(), BasedOn: before.GetSequence(),
		Nodes: now.GetNodes(), AdmittedNamespaces: now.GetAdmittedNamespaces(), Assignments: now.GetAssignments(),
		PodSecurity: now.GetPodSecurity(),
	}
	for _, t := range now.GetTemplates() {
		if !proto.Equal(known[keyOf(t)], t) {
			out.Templates = append(out.Templates, t)
		}
		delete(known, keyOf(t))
	}
	if len(known) > 0 {
		return nil
	}
	return out
}
