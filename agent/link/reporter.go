package link

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Bounds of a batch: whichever is reached first ends it.
const (
	maxBatchItems = 256
	maxBatchBytes = 1 << 20
	// window is how many batches may be unacknowledged. What changes while it
	// is full is coalesced.
	window = 8
)

// Ref names an assignment and its session.
type Ref struct {
	UID types.UID
	types.NamespacedName
}

// Render gives what the member holds of an assignment now; nil if nothing.
type Render func(Ref) *fleetv1.AssignmentReport

// Reporter is the set of assignments whose status has changed since it was
// last sent. It is pure and not safe for concurrent use.
//
// An unacknowledged batch is not kept: it is lost only with its stream, and
// the next one begins with the whole inventory.
type Reporter struct {
	debounce time.Duration
	dirty    map[Ref]bool
	order    []Ref
	// since is when the oldest of dirty was marked.
	since           time.Time
	sequence, acked uint64
	// sent is when each unacknowledged batch was, the oldest first.
	sent []time.Time
}

// NewReporter waits for debounce after the first change, so that a burst of
// changes is one batch.
func NewReporter(debounce time.Duration) *Reporter {
	return &Reporter{debounce: debounce, dirty: map[Ref]bool{}}
}

// Reset forgets all: what follows is a new stream with a whole inventory.
func (r *Reporter) Reset() { *r = *NewReporter(r.debounce) }

// Mark says that the status of an assignment has changed.
func (r *Reporter) Mark(ref Ref, now time.Time) {
	if r.dirty[ref] {
		return
	}
	if len(r.order) == 0 {
		r.since = now
	}
	r.dirty[ref] = true
	r.order = append(r.order, ref)
}

// Ack says that the hub has all batches up to a sequence.
func (r *Reporter) Ack(sequence uint64) {
	if sequence > r.sequence || sequence <= r.acked {
		return
	}
	r.sent = r.sent[min(int(sequence-r.acked), len(r.sent)):]
	r.acked = sequence
}

// UnacknowledgedAge is how long the oldest batch has been on its way.
func (r *Reporter) UnacknowledgedAge(now time.Time) time.Duration {
	if len(r.sent) == 0 {
		return 0
	}
	return now.Sub(r.sent[0])
}

// Len counts the assignments that are dirty.
func (r *Reporter) Len() int { return len(r.order) }

// Next is the batch to send now, if there is one. If there will be one by
// itself, wait says when; a wait of zero means: after the next Mark or Ack.
func (r *Reporter) Next(now time.Time, render Render) (batch *fleetv1.ReportBatch, wait time.Duration) {
	if len(r.order) == 0 || r.sequence-r.acked >= window {
		return nil, 0
	}
	if age := now.Sub(r.since); age < r.debounce && len(r.order) < maxBatchItems {
		return nil, r.debounce - age
	}
	items := r.take(render)
	if len(items) == 0 {
		return nil, 0
	}
	r.sequence++
	r.sent = append(r.sent, now)
	return &fleetv1.ReportBatch{Sequence: r.sequence, Items: items}, 0
}

func (r *Reporter) take(render Render) []*fleetv1.AssignmentReport {
	items, taken := renderPage(r.order, render)
	for _, ref := range r.order[:taken] {
		delete(r.dirty, ref)
	}
	r.order = r.order[taken:]
	if len(r.order) == 0 {
		r.order = nil
	}
	return items
}

// renderPage renders as many as one batch holds, and says how many refs that
// took: those of which nothing is left give no item.
func renderPage(refs []Ref, render Render) (items []*fleetv1.AssignmentReport, taken int) {
	bytes := 0
	for taken < len(refs) && len(items) < maxBatchItems {
		if item := fitting(render(refs[taken])); item != nil {
			size := proto.Size(item) + itemOverhead
			if bytes+size > maxBatchBytes {
				break
			}
			items, bytes = append(items, item), bytes+size
		}
		taken++
	}
	return items, taken
}

// itemOverhead is what a report costs within its batch besides itself: a tag,
// a length, its hash, and the batch's own fields.
const itemOverhead = 32

// ReasonReportTooLarge is the reason in a report whose status was left out,
// since no batch could hold it.
const ReasonReportTooLarge = "ReportTooLarge"

// fitting is a report that fits a batch: in the place of a status that does not
// stands that it doesn't.
func fitting(r *fleetv1.AssignmentReport) *fleetv1.AssignmentReport {
	if r == nil || proto.Size(r)+itemOverhead <= maxBatchBytes {
		return r
	}
	r.Status = &fleetv1.AssignmentStatus{
		ObservedGeneration: r.GetStatus().GetObservedGeneration(), State: r.GetStatus().GetState(),
		Reason:  ReasonReportTooLarge,
		Message: fmt.Sprintf("the status in the member has %d KiB, and at most %d can be reported", proto.Size(r)>>10, maxBatchBytes>>10),
	}
	return r
}
