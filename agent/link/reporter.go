package link

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Limits of a batch, whichever is reached first.
const (
	maxBatchItems = 256
	maxBatchBytes = 1 << 20
	// window is how many batches may be unacknowledged. While it is full, changes are
	// coalesced.
	window = 8
)

// Ref names an assignment and its session.
type Ref struct {
	UID types.UID
	types.NamespacedName
}

// Render returns the current report of an assignment, and nil if there is none.
type Render func(Ref) *fleetv1.AssignmentReport

// Reporter is the set of assignments whose status has changed since it was last sent. It
// is pure and not safe for concurrent use.
//
// Unacknowledged batches are not kept: they are lost only with their stream, and the next
// one begins with the inventory.
type Reporter struct {
	debounce time.Duration
	dirty    map[Ref]bool
	order    []Ref
	// sentAt is when the last batch was sent.
	sentAt          time.Time
	sequence, acked uint64
	// sent has when each unacknowledged batch was sent, the oldest first.
	sent []time.Time
}

// NewReporter returns a Reporter that sends the first change at once and then at most one
// batch per debounce, so that a burst of changes is few batches.
func NewReporter(debounce time.Duration) *Reporter {
	return &Reporter{debounce: debounce, dirty: map[Ref]bool{}}
}

// Reset empties the set for a new stream, which begins with the inventory.
func (r *Reporter) Reset() { *r = *NewReporter(r.debounce) }

// Mark adds an assignment whose status has changed.
func (r *Reporter) Mark(ref Ref) {
	if r.dirty[ref] {
		return
	}
	r.dirty[ref] = true
	r.order = append(r.order, ref)
}

// Ack acknowledges all batches up to a sequence.
func (r *Reporter) Ack(sequence uint64) {
	if sequence > r.sequence || sequence <= r.acked {
		return
	}
	r.sent = r.sent[min(int(sequence-r.acked), len(r.sent)):]
	r.acked = sequence
}

// UnacknowledgedAge returns how long the oldest batch has been unacknowledged.
func (r *Reporter) UnacknowledgedAge(now time.Time) time.Duration {
	if len(r.sent) == 0 {
		return 0
	}
	return now.Sub(r.sent[0])
}

// Len returns the number of changed assignments.
func (r *Reporter) Len() int { return len(r.order) }

// Next returns the batch to send now, if any. Otherwise wait is the time until the next one,
// or zero if only Mark or Ack causes one.
func (r *Reporter) Next(now time.Time, render Render) (batch *fleetv1.ReportBatch, wait time.Duration) {
	if len(r.order) == 0 || r.sequence-r.acked >= window {
		return nil, 0
	}
	if age := now.Sub(r.sentAt); age < r.debounce && len(r.order) < maxBatchItems {
		return nil, r.debounce - age
	}
	items, count := renderPage(r.order, render)
	for _, ref := range r.order[:count] {
		delete(r.dirty, ref)
	}
	if r.order = r.order[count:]; len(r.order) == 0 {
		r.order = nil
	}
	if len(items) == 0 {
		return nil, 0
	}
	r.sequence++
	r.sentAt, r.sent = now, append(r.sent, now)
	return &fleetv1.ReportBatch{Sequence: r.sequence, Items: items}, 0
}

// renderPage renders a batch, and returns the number of its refs, which exceeds that of its
// items if some are gone.
func renderPage(refs []Ref, render Render) (items []*fleetv1.AssignmentReport, count int) {
	bytes := 0
	for count < len(refs) && len(items) < maxBatchItems {
		if item := limitSize(render(refs[count])); item != nil {
			size := proto.Size(item) + itemOverhead
			if bytes+size > maxBatchBytes {
				break
			}
			items, bytes = append(items, item), bytes+size
		}
		count++
	}
	return items, count
}

// itemOverhead is what a report adds to its batch besides its size: a tag, a length, its
// hash, and the batch's fields.
const itemOverhead = 32

// ReasonReportTooLarge is the reason in a report whose status exceeds a batch and was
// omitted.
const ReasonReportTooLarge = "ReportTooLarge"

// limitSize replaces the status of a report that does not fit into a batch.
func limitSize(r *fleetv1.AssignmentReport) *fleetv1.AssignmentReport {
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
