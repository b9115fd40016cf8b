package link

import (
	"time"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// A capacity report is repeated if nothing has changed: it proves that the hub's data is current.
// A hub that accepts incremental reports gets one without changes, and a full report now and then,
// in case it has not applied one; others get full ones.
const (
	repeatInterval     = 30 * time.Second
	fullReportInterval = 5 * time.Minute
)

// capacityReports decides which capacity reports are sent on a stream. They outlive it: a hub that has
// the last report of an earlier stream gets the changes since.
type capacityReports struct {
	// changes is set if the hub accepts incremental reports.
	changes bool
	// due is set if there may be a newer report than sent.
	due  bool
	sent *fleetv1.CapacityReport
	// fullAt is when the next full report is due, and repeatAt when the next of any kind.
	fullAt, repeatAt time.Time
}

// begin begins a stream to a hub that has the report of a number, 0 for none.
func (r *capacityReports) begin(changes bool, known uint64) {
	r.changes, r.due = changes, false
	if !changes || known == 0 || r.sent.GetSequence() != known {
		r.sent = nil
	}
}

// next returns the report to send, if any: the changes since the last one, or a full one.
// Reports with a lower number than least are not sent.
func (r *capacityReports) next(now time.Time, newest func() *fleetv1.CapacityReport, least uint64) *fleetv1.CapacityReport {
	repeat := !now.Before(r.repeatAt)
	full := r.sent == nil || !now.Before(r.fullAt) || repeat && !r.changes
	if !r.due && (r.sent == nil || !full && !repeat) {
		return nil
	}
	r.due = false
	report := newest()
	if report == nil || report.GetSequence() < least {
		return nil
	}
	before := r.sent
	r.sent = report
	if !full && r.changes {
		if report.GetSequence() == before.GetSequence() && !repeat {
			return nil
		}
		r.repeatAt = now.Add(repeatInterval)
		if changes := changesOf(before, report); changes != nil {
			return changes
		}
	}
	r.fullAt, r.repeatAt = now.Add(fullReportInterval), now.Add(repeatInterval)
	return report
}

// wait returns the time until the next report is due, and 0 before the first report.
func (r *capacityReports) wait(now time.Time) time.Duration {
	if r.sent == nil {
		return 0
	}
	return max(time.Nanosecond, min(r.fullAt.Sub(now), r.repeatAt.Sub(now)))
}

// sooner returns the shorter of two delays, of which 0 is for ever.
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

// changesOf returns the changes of a report since an earlier one, and nil if a template was
// removed, which requires a full report.
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
