package placement

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// withOverhead has every Pod of desk take more than is asked for.
func withOverhead(c Candidate, overhead Resources) Candidate {
	report := *c.Capacity
	t := report.Templates[desk]
	t.Overhead = overhead
	report.Templates = map[TemplateKey]TemplateCapacity{desk: t}
	c.Capacity = &report
	return c
}

// What a runtime class takes besides counts as if the session had asked for it,
// for what is given away already too; in each member its own.
func TestOverheadCountsAsAskedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(0, 3).Draw(t, "overhead") * 250
		nodes := rapid.Int32Range(1, 4).Draw(t, "nodes")
		plain, fat := session("s"), session("s")
		fat.Resources = Resources{corev1.ResourceCPU: 1000 + amount, corev1.ResourceMemory: 4 * gi}
		overhead, asked := NewLedger(), NewLedger()
		for i := range rapid.IntRange(0, 5).Draw(t, "reserved") {
			uid := types.UID(rune('a' + i))
			overhead.ReserveFor(uid, 1, "uid-m", desk, plain.Resources)
			asked.ReserveFor(uid, 1, "uid-m", desk, fat.Resources)
		}
		m := member("m", nodes)
		got := Room(plain, []Candidate{withOverhead(m, Resources{corev1.ResourceCPU: amount})}, overhead, 100)
		if want := Room(fat, []Candidate{m}, asked, 100); got != want {
			t.Fatalf("room for %d with an overhead, and for %d that ask for it themselves", got, want)
		}
	})
	two := []Candidate{withOverhead(member("m1", 1), Resources{corev1.ResourceCPU: 600}), member("m2", 1)}
	if got := Room(session("s"), two, NewLedger(), 100); got != 5+8 {
		t.Errorf("room for %d, want 5 where 1.6 cpu go and 8 where 1 does", got)
	}
}

func TestOverheadIsPartOfWhatIsLacking(t *testing.T) {
	big := asking(session("s"), func(r *Request) { r.Resources = Resources{corev1.ResourceCPU: 8000} })
	if d := Place(big, []Candidate{member("m", 1)}, NewLedger()); !d.Placed {
		t.Fatal(d.Message)
	}
	d := Place(big, []Candidate{withOverhead(member("m", 1), Resources{corev1.ResourceCPU: 1})}, NewLedger())
	if d.Placed {
		t.Error("placed on a node of 8 cpu that asks for 8.001")
	}
}
