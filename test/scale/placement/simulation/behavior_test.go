package simulation

import (
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/trace"
)

func TestAMemberRefusesWhenItsReportIsStale(t *testing.T) {
	world := fleet([]int64{4}, []int64{4})
	podOf(world, "a", time.Minute, 4, time.Hour)
	sessionOf(world, 2*time.Minute, 2, time.Minute)
	fresh := Run(world, Defaults())
	if fresh.Refusals != 0 || len(fresh.Waits) != 1 {
		t.Errorf("with fresh reports %d refusals, and %d of 1 ran", fresh.Refusals, len(fresh.Waits))
	}
	o := Defaults()
	o.Debounce = 10 * time.Minute // in the hub's cache a is still empty
	stale := Run(world, o)
	if stale.Refusals != 1 {
		t.Errorf("with stale reports %d refusals, not 1", stale.Refusals)
	}
	// Order, refusal, order to the next member, and until its Pod is scheduled.
	if want := 3*o.Link + o.Schedule; len(stale.Waits) != 1 || stale.Waits[0] != want {
		t.Errorf("waits %v: it should have gone to the next best at once, after %s", stale.Waits, want)
	}
}

func TestAfterThreeRefusalsInARowASessionPauses(t *testing.T) {
	world := fleet([]int64{2}, []int64{2}, []int64{2}, []int64{2}, []int64{2})
	for _, member := range []string{"a", "b", "c", "d"} {
		podOf(world, member, time.Minute, 2, time.Hour)
	}
	podOf(world, "e", time.Minute, 2, 10*time.Minute)
	sessionOf(world, 2*time.Minute, 2, time.Minute)
	o := Defaults()
	o.Debounce = 20 * time.Minute
	r := newRun(world, o)
	at := 2*time.Minute + 8*o.Link // four orders and refusals
	for r.step(at) {
	}
	if r.result.Refusals != refusalsInRow+1 {
		t.Fatalf("%d refusals, not one and %d at once", r.result.Refusals, refusalsInRow)
	}
	for r.step(at + backoffLeast) {
	}
	if r.sessions[0].member == nil || r.result.Refusals != refusalsInRow+1 {
		t.Errorf("a second later the fifth member is not tried")
	}
}

// Without others' Pods and with sessions of one size, reservations are exact: it
// does not matter how late the reports are.
func TestReservationsNeedNoRefusal(t *testing.T) {
	world := fleet([]int64{4, 8, 2}, []int64{8, 3})
	const slots = 12 // of two cpus
	for i := range 1000 {
		sessionOf(world, time.Duration(i)*time.Millisecond, 2, 24*time.Hour)
	}
	for _, debounce := range []time.Duration{0, time.Second, time.Minute} {
		o := Defaults()
		o.Debounce = debounce
		r := Run(world, o)
		if len(r.Waits) != slots || r.NeverPlaced != 1000-slots || r.Refusals != 0 || r.Moves != 0 {
			t.Errorf("with reports after %s, %d got a node and %d none, with %d refusals and %d moves; there are %d slots",
				debounce, len(r.Waits), r.NeverPlaced, r.Refusals, r.Moves, slots)
		}
	}
}

func TestSessionsThatWaitForAGPUBlockNoOthers(t *testing.T) {
	world := fleet([]int64{4})
	sessionOf(world, time.Second, 4, time.Hour)
	world.Sessions[0].GPU = 1
	for i := range 8 {
		sessionOf(world, time.Duration(2+i)*time.Second, 2, time.Minute)
	}
	r := Run(world, Defaults())
	if len(r.Waits) != 8 || r.NeverPlaced != 1 {
		t.Errorf("%d got a node and %d none, not 8 and 1", len(r.Waits), r.NeverPlaced)
	}
}

// overtaken adds a Pod that takes the node between the assignment and its Pod.
func overtaken(world *trace.Trace) *trace.Trace {
	o := Defaults()
	sessionOf(world, time.Minute, 4, time.Minute)
	podOf(world, "a", time.Minute+o.Link+o.Schedule/2, 4, 5*time.Minute)
	return world
}

func TestAnUnschedulableSessionIsMovedIfAnotherMemberFits(t *testing.T) {
	r := Run(overtaken(fleet([]int64{4}, []int64{4})), Defaults())
	if r.Moves != 1 || r.Refusals != 0 || r.Finished != 1 {
		t.Errorf("%d moves, %d refusals, %d finished, not 1, 0 and 1", r.Moves, r.Refusals, r.Finished)
	}
	if len(r.Waits) != 1 || r.Waits[0] < unschedulableFor || r.Waits[0] > unschedulableFor+5*time.Second {
		t.Errorf("it waited %v", r.Waits)
	}
}

func TestAnUnschedulableSessionStaysIfNoOtherMemberFits(t *testing.T) {
	r := Run(overtaken(fleet([]int64{4}, []int64{2})), Defaults())
	if r.Moves != 0 || r.Finished != 1 || r.Waits[0] < 4*time.Minute {
		t.Errorf("%d moves, %d finished, waits %v", r.Moves, r.Finished, r.Waits)
	}
}

func TestALostMembersSessionsAreFailedOverWhereThereIsCapacity(t *testing.T) {
	world := fleet([]int64{4}, []int64{2})
	sessionOf(world, time.Second, 2, time.Hour)
	sessionOf(world, 2*time.Second, 2, time.Hour)
	world.Losses = []trace.Loss{{Member: "a", At: 10 * time.Minute, Lasts: 10 * time.Minute}}
	r := newRun(world, Defaults())
	for r.step(10*time.Minute + failoverAfter - time.Second) {
	}
	if r.result.Failovers != 0 {
		t.Fatalf("%d are failed over too early", r.result.Failovers)
	}
	for r.step(15 * time.Minute) {
	}
	a, b := r.byName["a"], r.byName["b"]
	if len(b.copies) != 1 || r.sessions[0].member != b || r.sessions[1].member != a || !r.sessions[1].waits {
		t.Fatalf("member b has %d copies, and one session should still be placed in a, waiting for capacity", len(b.copies))
	}
	for r.step(21 * time.Minute) {
	}
	if len(a.copies) != 1 || r.sessions[1].waits || len(r.sessions[0].releasing) != 0 {
		t.Errorf("back again, member a has %d copies, not just the one that stayed", len(a.copies))
	}
	for r.step(forever) {
	}
	if r.result.Finished != 2 {
		t.Errorf("%d of 2 finished", r.result.Finished)
	}
}

func TestAMemberThatComesBackInTimeKeepsItsSessions(t *testing.T) {
	world := fleet([]int64{4}, []int64{4})
	sessionOf(world, time.Second, 2, time.Hour)
	world.Losses = []trace.Loss{{Member: "a", At: time.Minute, Lasts: failoverAfter - time.Second}}
	if r := Run(world, Defaults()); r.Failovers != 0 || r.Finished != 1 {
		t.Errorf("%d failovers, %d finished", r.Failovers, r.Finished)
	}
}

func TestALostNodesSessionsRunOnAnotherForTheRestOfTheirTime(t *testing.T) {
	world := fleet([]int64{4, 4})
	sessionOf(world, 0, 4, time.Hour)
	world.Losses = []trace.Loss{{Member: "a", Node: "node-0", At: 30 * time.Minute, Lasts: 24 * time.Hour}}
	r := newRun(world, Defaults())
	for r.step(31 * time.Minute) {
	}
	if n := r.members[0].node("node-1"); n.used.CPU != 4000 {
		t.Fatalf("the other node has %v in use", n.used)
	}
	for r.step(61 * time.Minute) {
	}
	if r.result.Finished != 1 {
		t.Error("it runs for longer than its time")
	}
}
