package link

import (
	"time"

	"google.golang.org/protobuf/proto"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// A capacity report is repeated if nothing has changed: it proves that the hub's data is current.
// A hub that accepts incremental reports gets one without changes; others get full ones. Some time after
// a change of capacity or of the templates a full report follows, in case the hub has not applied one.
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
	// repeatAt is when the next report of any kind is due, and fullAt when a full one is, zero unless
	// changes were sent, or templates were received, since the last one.
	repeatAt, fullAt time.Time
	// templates is set if the hub has sent some since.
	templates bool
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
	if r.templates {
		r.templates = false
		r.changed(now)
	}
	full := r.fullIsDue(now) || repeat && !r.changes
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
			if report.GetSequence() != before.GetSequence() {
				r.changed(now)
			}
			return changes
		}
	}
	r.fullAt, r.repeatAt = time.Time{}, now.Add(repeatInterval)
	return report
}

func (r *capacityReports) fullIsDue(now time.Time) bool {
	return r.sent == nil || !r.fullAt.IsZero() && !now.Before(r.fullAt)
}

// changed makes a full report due, some time after the first change since the last one.
func (r *capacityReports) changed(now time.Time) {
	if r.fullAt.IsZero() {
		r.fullAt = now.Add(fullReportInterval)
	}
}

// wait returns the time until the next report is due, and 0 before the first report.
func (r *capacityReports) wait(now time.Time) time.Duration {
	if r.sent == nil {
		return 0
	}
	due := r.repeatAt
	if !r.fullAt.IsZero() && r.fullAt.Before(due) {
		due = r.fullAt
	}
	return max(time.Nanosecond, due.Sub(now))
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
		PodSecurity: now.GetPodSecurity(), NodeGroups: now.GetNodeGroups(), Buffers: now.GetBuffers(),
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
