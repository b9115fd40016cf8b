package placement

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// contents returns a ledger as text: the reservations, and their counts by group.
func contents(l *Ledger) map[string]string {
	out := map[string]string{}
	for member, a := range l.accounts {
		for session, r := range a.reservations {
			out[fmt.Sprint("reservation ", member, " ", session)] = fmt.Sprintf("%d %s %s %v %d %v %s %s",
				r.epoch, r.class.template, r.class.shape.key, r.acknowledged, r.countedFrom, r.again, r.expected, r.stored)
		}
		for _, g := range a.groups {
			out[fmt.Sprint("group ", member, " ", g.class.template, g.class.shape.key)] = fmt.Sprint(g.count)
		}
		out[fmt.Sprint("report ", member)] = fmt.Sprint(a.reported, a.sequence)
	}
	return out
}

func TestADryRunDoesNotChangeTheLedger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		before := contents(ledger)
		dryRun := ledger.CopyFor(r.UID, func(types.UID) bool { return false })
		for i := range rapid.IntRange(1, 8).Draw(t, "tries") {
			r.UID = types.UID(fmt.Sprint("try-", i))
			if d := Place(r, candidates, dryRun); d.Placed {
				dryRun.ReserveFor(r.UID, 1, d.Cluster.UID, r.Template, r.Resources)
			}
		}
		if diff := cmp.Diff(before, contents(ledger)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestADryRunDecidesAsTheLedgerDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		want := Explain(r, candidates, ledger)
		current := func(member types.UID) bool { return r.Current != nil && r.Current.Cluster == member }
		// The session's reservations outside its current member are not copied.
		for i := range candidates {
			if !current(candidates[i].UID) && rapid.Bool().Draw(t, "has something there") {
				ledger.ReserveFor(r.UID, 1, candidates[i].UID, desk, drawResources(t, "own", 0, 3))
			}
		}
		dryRun := ledger.CopyFor(r.UID, current)
		if diff := cmp.Diff(want, Explain(r, candidates, dryRun), cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestADryRunKeepsTheCapacityOfTheSessionsPlacement(t *testing.T) {
	m := member("eu", 1)
	ledger := NewLedger()
	r := session("s")
	ledger.ReserveFor(r.UID, 3, m.UID, r.Template, r.Resources)
	ledger.ReserveFor(r.UID, 4, "uid-us", r.Template, r.Resources)
	dryRun := ledger.CopyFor(r.UID, func(member types.UID) bool { return member == m.UID })
	if got := []int{dryRun.Outstanding(m.UID), dryRun.Outstanding("uid-us")}; got[0] != 1 || got[1] != 0 {
		t.Fatalf("the session has %v reservations there and elsewhere, instead of one there", got)
	}
	r.Current = &CurrentPlacement{Cluster: m.UID, UsesCapacity: true}
	want := Explain(r, []Candidate{m}, ledger)
	if diff := cmp.Diff(want, Explain(r, []Candidate{m}, dryRun)); diff != "" {
		t.Fatal(diff)
	}
}
