package placement

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestSlotsCountWhatFits(t *testing.T) {
	busy := NewLedger()
	for _, s := range []types.UID{"a", "b", "c"} {
		busy.ReserveFor(s, 1, "uid-m1", desk, session("s").Resources)
	}
	capped := func(caps v1alpha1.SessionCaps, counts Counts) func(*Request) {
		return func(r *Request) { r.Policy, r.Counts = &v1alpha1.PlacementPolicySpec{SessionCaps: caps}, counts }
	}
	two := []Candidate{member("m1", 1), member("m2", 1)}
	for _, c := range []struct {
		name       string
		request    Request
		candidates []Candidate
		ledger     *Ledger
		most, want int64
	}{
		{"all slots of all members", session("s"), two, NewLedger(), 100, 16},
		{"no more than requested", session("s"), two, NewLedger(), 5, 5},
		{"less what is reserved", session("s"), two, busy, 100, 13},
		{"not those of a cordoned member", session("s"), []Candidate{member("m1", 1), with(member("m2", 1), func(c *Candidate) { c.Scheduling = v1alpha1.SchedulingCordoned })}, NewLedger(), 100, 8},
		{"the member's cap", session("s"), []Candidate{with(member("m1", 1), func(c *Candidate) { c.SessionCap, c.Sessions = ptr[int32](7), 4 })}, NewLedger(), 100, 3},
		{"less its headroom", session("s"), []Candidate{with(member("m1", 1), func(c *Candidate) { c.HeadroomPercent = 25 })}, NewLedger(), 100, 6},
		{"the policy's cap", requestWith(session("s"), capped(v1alpha1.SessionCaps{Total: ptr[int32](10)}, Counts{Total: 6})), two, NewLedger(), 100, 4},
		{"the policy's cap on a user", requestWith(session("s"), capped(v1alpha1.SessionCaps{PerUser: ptr[int32](2)}, Counts{User: 1})), two, NewLedger(), 100, 1},
		{"the policy's cap on a namespace", requestWith(session("s"), capped(v1alpha1.SessionCaps{PerNamespace: ptr[int32](3)}, Counts{Namespace: 1})), two, NewLedger(), 100, 2},
		{"the policy's cap on a cluster", requestWith(session("s"), capped(v1alpha1.SessionCaps{PerCluster: ptr[int32](3)}, Counts{Clusters: map[types.UID]int32{"uid-m1": 1}})), two, NewLedger(), 100, 5},
		{"a cap that is reached", requestWith(session("s"), capped(v1alpha1.SessionCaps{Total: ptr[int32](6)}, Counts{Total: 6})), two, NewLedger(), 100, 0},
		{"no members", session("s"), nil, NewLedger(), 100, 0},
		{"on nodes that exist, are being added, or may be added", session("s"), []Candidate{growing("m1", "eu", 1, 1, 2)}, NewLedger(), 100, 32},
		{"less what is reserved on any of them", session("s"), []Candidate{growing("m1", "eu", 1, 1, 2)}, busy, 100, 29},
		{"on nodes that exist, for a session that runs", requestWith(session("s"), func(r *Request) { r.FreeOnly = true }), []Candidate{growing("m1", "eu", 1, 1, 2)}, NewLedger(), 100, 8},
		{"on nodes that exist, if the policy permits no others", governed(tiers(freeIn("eu"))), []Candidate{growing("m1", "eu", 1, 1, 2)}, NewLedger(), 100, 8},
		{"on new nodes, if no slot is free after all", requestWith(session("s"), func(r *Request) {
			r.Refused, r.RefusedFree = map[types.UID]string{"uid-m1": "full"}, sets.New[types.UID]("uid-m1")
		}), []Candidate{growing("m1", "eu", 1, 1, 2)}, NewLedger(), 100, 24},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Slots(c.request, c.candidates, c.ledger, c.most); got != c.want {
				t.Errorf("capacity for %d, want %d", got, c.want)
			}
		})
	}
}

// A member whose report is void, since another agent instance has connected, has no
// capacity until it reports again.
func TestAMemberWhoseReportIsVoidHasNoCapacity(t *testing.T) {
	ledger := NewLedger()
	for _, c := range []struct {
		what string
		of   Candidate
		want int64
	}{
		{"that reported", member("m1", 1), 8},
		{"whose report is void", with(member("m1", 1), func(c *Candidate) { c.Capacity = nil }), 0},
		{"that reported again", member("m1", 1), 8},
	} {
		if got := Slots(session("s"), []Candidate{c.of}, ledger, 100); got != c.want {
			t.Errorf("a member %s has capacity for %d, not %d", c.what, got, c.want)
		}
	}
}

// Slots and Place agree: a session that is requeued for capacity can be placed, and no
// session is pending that could be placed.
func TestASessionIsPlacedWhereThereIsCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		most := rapid.Int64Range(1, 50).Draw(t, "most")
		fits := Slots(r, candidates, ledger, most)
		if placed := Place(r, candidates, ledger).Placed; placed != (fits > 0) || fits > most || fits < 0 {
			t.Fatalf("placed: %v, capacity for %d of %d", placed, fits, most)
		}
	})
}
