package protocol

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

const (
	// mismatches in a row that cause a resync: one may be a renewal that a
	// resync has overtaken.
	mismatches = 2
	// rememberedSums is how many batches back the hub knows its own digest: the
	// agent's window, and what may be applied while a renewal is on its way.
	rememberedSums = 16
)

// Sets whose digests are compared.
const (
	setReported = "reported"
	setAssigned = "assigned"
)

// Verdict on a SyncState.
type Verdict struct {
	// Agreement to be told; empty: as before.
	Agreement Agreement
	// Mismatched are the sets that differed.
	Mismatched []string
	// Resync is the set for which the agent is asked for all; empty: none.
	Resync string
}

// agreement compares what both sides believe. The reported set is compared as
// of one batch of reports, at which both sides know their digest, so that
// nothing that is on its way makes a difference. For the assigned set there is
// no such common moment: it is compared while no order is unanswered, and a
// mismatch counts as the second one only if it is the same as the first.
type agreement struct {
	// state that was not judged yet.
	state *fleetv1.SyncState
	sums  [rememberedSums]struct {
		known    bool
		sequence uint64
		sum      uint64
	}
	reported, assigned int
	// differed is the last mismatch of the assigned set: ours, theirs.
	differed [2]uint64
	// resynced is when the agent was last asked for all.
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

// Sync takes what the agent has said on a renewal. Judge then says what to make
// of it, now or once more of the stream was applied.
func (c *Conn) Sync(state *fleetv1.SyncState) {
	if c.state == Serving {
		c.agreement.state = state
	}
}

// Judge compares the last SyncState with what the hub believes; false if there
// is nothing to compare yet, or nothing to be learnt from it. A resync that it
// asks for goes out with the next messages.
func (c *Conn) Judge(sums Sums) (Verdict, bool) {
	a := &c.agreement
	state := a.state
	if state == nil || c.state != Serving {
		return Verdict{}, false
	}
	if c.opening.asked != nil || state.GetReportSequence() < c.acked && !a.knows(state.GetReportSequence()) {
		a.state = nil
		return Verdict{}, false
	}
	if state.GetReportSequence() > c.acked {
		return Verdict{}, false // Judged when those batches are in.
	}
	a.state = nil
	mine, known := a.recall(state.GetReportSequence())
	if !known {
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

func (a *agreement) knows(sequence uint64) bool {
	_, known := a.recall(sequence)
	return known
}

// count says whether it was a mismatch.
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
	// What a resync does not mend is not asked for with each renewal.
	if now := c.inFlight.now; !a.resynced.IsZero() && now.Sub(a.resynced) < c.tuning.AckTimeout {
		verdict.Agreement, verdict.Resync = Differs, ""
		return
	}
	verdict.Agreement = Resyncing
	a.reported, a.assigned, a.resynced = 0, 0, c.inFlight.now
	c.opening.ask(convert.AllBuckets())
}
