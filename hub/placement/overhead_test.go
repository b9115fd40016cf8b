package placement

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// withOverhead adds an overhead to every Pod of desk in a candidate.
func withOverhead(c Candidate, overhead Resources) Candidate {
	report := *c.Capacity
	t := report.Templates[desk]
	t.Overhead = overhead
	report.Templates = maps.Clone(report.Templates)
	report.Templates[desk] = t
	c.Capacity = &report
	return c
}

// The overhead of a runtime class, which may differ by member and template, counts as
// if the session had requested it, for earlier reservations too.
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
		overhead, requested := NewLedger(), NewLedger()
		for i := range rapid.IntRange(0, 5).Draw(t, "reserved") {
			uid, k, n := types.UID(rune('a'+i)), template.Draw(t, "of"), amount.Draw(t, "cpu")
			overhead.ReserveFor(uid, 1, "uid-m", k, cpu(n))
			requested.ReserveFor(uid, 1, "uid-m", k, fat(k, n))
		}
		k, n := template.Draw(t, "requested of"), amount.Draw(t, "requested")
		request := func(r Resources) Request {
			return requestWith(session("s"), func(s *Request) { s.Template, s.Resources = k, r })
		}
		got := Slots(request(cpu(n)), []Candidate{sandboxed}, overhead, 100)
		if want := Slots(request(fat(k, n)), []Candidate{m}, requested, 100); got != want {
			t.Fatalf("capacity for %d with an overhead, and for %d that request it themselves", got, want)
		}
	})
	two := []Candidate{withOverhead(member("m1", 1), Resources{corev1.ResourceCPU: 600}), member("m2", 1)}
	if got := Slots(session("s"), two, NewLedger(), 100); got != 5+8 {
		t.Errorf("capacity for %d, want 5 where each takes 1.6 cpu and 8 where each takes 1", got)
	}
}

func TestOverheadIsPartOfWhatIsLacking(t *testing.T) {
	big := requestWith(session("s"), func(r *Request) { r.Resources = Resources{corev1.ResourceCPU: 8000} })
	if d := Place(big, []Candidate{member("m", 1)}, NewLedger()); !d.Placed {
		t.Fatal(d.Message)
	}
	d := Place(big, []Candidate{withOverhead(member("m", 1), Resources{corev1.ResourceCPU: 1})}, NewLedger())
	if d.Placed {
		t.Error("placed on a node of 8 cpu though it requests 8.001")
	}
}
