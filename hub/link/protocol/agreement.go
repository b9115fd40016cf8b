package protocol

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

const (
	// mismatches in a row cause a resync: one may be of a renewal that a resync has
	// overtaken.
	mismatches = 2
	// rememberedSums is of how many batches the hub keeps its digest: the agent's
	// window, and what may be applied while a renewal is in flight.
	rememberedSums = 16
)

// Sets whose digests are compared.
const (
	setReported = "reported"
	setAssigned = "assigned"
)

// Verdict is the outcome of the comparison of a SyncState.
type Verdict struct {
	// Agreement that the Member is given; empty if it is unchanged.
	Agreement Agreement
	// Mismatched are the sets that differed.
	Mismatched []string
	// Resync is the set that causes a resync; empty if there is none.
	Resync string
}

// agreement compares the digests of both sides. The reported set is compared as of one
// batch of reports, so that reports in flight make no difference. The assigned set has
// no such version: it is compared while no order is unanswered, and a mismatch counts as
// the second one only if it equals the first.
type agreement struct {
	// state is the last SyncState, until it is compared.
	state *fleetv1.SyncState
	sums  [rememberedSums]struct {
		known    bool
		sequence uint64
		sum      uint64
	}
	reported, assigned int
	// differed is the last mismatch of the assigned set: ours, theirs.
	differed [2]uint64
	// resynced is the time of the last resync.
	resynced time.Time
}

func (a *agreement) remember(sequence, sum uint64) {
	slot := &a.sums[sequence%rememberedSums]
	slot.known, slot.sequence, slot.sum = true, sequence, sum
}

func (a *agreement) recall(sequence uint64) (sum uint64, known bool) {
	slot := &a.sums[sequence%rememberedSums]
	return slot.sum, slot.known && slot.sequence == sequence
}

// Sync records the digests of a renewal. CompareDigests then compares them, now or once
// more of the stream was applied.
func (c *Conn) Sync(state *fleetv1.SyncState) {
	if c.state == Serving {
		c.agreement.state = state
	}
}

// CompareDigests compares the last SyncState with the hub's digests, and returns false
// if they cannot be compared, or not yet. A resync that it causes is requested with the
// next messages.
func (c *Conn) CompareDigests(sums Sums) (Verdict, bool) {
	a := &c.agreement
	state := a.state
	if state == nil || c.state != Serving {
		return Verdict{}, false
	}
	if c.opening.requested == nil && state.GetReportSequence() > c.acked {
		return Verdict{}, false // Compared once those batches have arrived.
	}
	a.state = nil
	mine, known := a.recall(state.GetReportSequence())
	if c.opening.requested != nil || !known {
		return Verdict{}, false
	}
	verdict := Verdict{}
	if a.count(&a.reported, mine == state.GetReported()) {
		verdict.Mismatched = append(verdict.Mismatched, setReported)
	}
	if state.GetReportSequence() == c.acked && c.outbox.Len() == 0 && a.countAssigned(sums.Assigned, state.GetAssigned()) {
		verdict.Mismatched = append(verdict.Mismatched, setAssigned)
	}
	c.conclude(&verdict)
	return verdict, true
}

// count counts the mismatches in a row, and returns whether this is one.
func (a *agreement) count(inARow *int, equal bool) bool {
	if equal {
		*inARow = 0
		return false
	}
	*inARow++
	return true
}

func (a *agreement) countAssigned(ours, theirs uint64) bool {
	if both := [2]uint64{ours, theirs}; both != a.differed {
		a.assigned, a.differed = 0, both
	}
	return a.count(&a.assigned, ours == theirs)
}

func (c *Conn) conclude(verdict *Verdict) {
	a := &c.agreement
	switch {
	case a.reported >= mismatches:
		verdict.Resync = setReported
	case a.assigned >= mismatches:
		verdict.Resync = setAssigned
	case a.reported == 0 && a.assigned == 0:
		verdict.Agreement = Agrees
		return
	default:
		return
	}
	// A mismatch that a resync does not remove causes no resync with each renewal.
	if now := c.now; !a.resynced.IsZero() && now.Sub(a.resynced) < c.tuning.AckTimeout {
		verdict.Agreement, verdict.Resync = Differs, ""
		return
	}
	verdict.Agreement = Resyncing
	a.reported, a.assigned, a.resynced = 0, 0, c.now
	c.opening.request(convert.AllBuckets())
}
