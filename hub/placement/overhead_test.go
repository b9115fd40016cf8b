package placement

import (
	"maps"
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
	report.Templates = maps.Clone(report.Templates)
	report.Templates[desk] = t
	c.Capacity = &report
	return c
}

// What a runtime class takes besides counts as if the session had asked for it,
// for what is given away already too; in each member its own, and for each
// template.
func TestOverheadCountsAsRequested(t *testing.T) {
	plain := TemplateKey{Name: "plain", Revision: "r1"}
	cpu := func(amount int64) Resources {
		return Resources{corev1.ResourceCPU: amount, corev1.ResourceMemory: gi}
	}
	rapid.Check(t, func(t *rapid.T) {
		m := member("m", rapid.Int32Range(1, 4).Draw(t, "nodes"))
		m.Capacity.Templates[plain] = m.Capacity.Templates[desk]
		sandboxed := withOverhead(m, Resources{corev1.ResourceCPU: 750})
		fat := func(k TemplateKey, amount int64) Resources {
			if k == desk {
				amount += 750
			}
			return cpu(amount)
		}
		template := rapid.SampledFrom([]TemplateKey{desk, plain})
		amount := rapid.SampledFrom([]int64{500, 1000, 1500, 3000})
		overhead, asked := NewLedger(), NewLedger()
		for i := range rapid.IntRange(0, 5).Draw(t, "reserved") {
			uid, k, n := types.UID(rune('a'+i)), template.Draw(t, "of"), amount.Draw(t, "cpu")
			overhead.ReserveFor(uid, 1, "uid-m", k, cpu(n))
			asked.ReserveFor(uid, 1, "uid-m", k, fat(k, n))
		}
		k, n := template.Draw(t, "asked of"), amount.Draw(t, "asked")
		ask := func(r Resources) Request {
			return asking(session("s"), func(s *Request) { s.Template, s.Resources = k, r })
		}
		got := Room(ask(cpu(n)), []Candidate{sandboxed}, overhead, 100)
		if want := Room(ask(fat(k, n)), []Candidate{m}, asked, 100); got != want {
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
