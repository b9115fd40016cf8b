package placement

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheWorstReasonComesFirst(t *testing.T) {
	full := func(name string) Candidate {
		return with(member(name, 1), func(c *Candidate) { c.Capacity = reporting(Bucket{1, free(0, 0).Amounts()}) })
	}
	tainted := func(name string) Candidate {
		return with(member(name, 1), func(c *Candidate) {
			c.Taints = []corev1.Taint{{Key: "team", Effect: corev1.TaintEffectNoSchedule}}
		})
	}
	down := func(name string) Candidate {
		return with(member(name, 1), func(c *Candidate) { c.Ready = false })
	}
	elsewhere := func(name string) Candidate {
		return with(member(name, 1), func(c *Candidate) { c.Region = "us" })
	}
	r := requestWith(session("s"), func(r *Request) { r.RequiredRegions = []string{"eu"} })
	d := Place(r, []Candidate{full("a"), full("b"), full("c"), full("d"), down("e"), tainted("f"), tainted("g"), elsewhere("h"), elsewhere("i"), elsewhere("j")}, NewLedger())
	at := 0
	for _, part := range []string{"10 clusters: 3 are outside eu", "2 have the taint team", "1 is not ready", "4 lack cpu"} {
		next := strings.Index(d.Message, part)
		if next < at {
			t.Fatalf("%q is not there, or too early, in %s", part, d.Message)
		}
		at = next
	}
}

// A wave of pending sessions asks about every member of the fleet.
func TestARuleThatExcludesManyMembersIsExplainedOnce(t *testing.T) {
	members := make([]Candidate, 1000)
	for i := range members {
		members[i] = member(strconv.Itoa(i), 1)
	}
	for name, change := range map[string]func(*Request){
		"regions": func(r *Request) { r.RequiredRegions = []string{"us", "ap"} },
		"selector": func(r *Request) {
			r.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "b"}}
		},
	} {
		r, ledger := requestWith(session("s"), change), NewLedger()
		if n := testing.AllocsPerRun(10, func() { Place(r, members, ledger) }); n > 100 {
			t.Errorf("%s: a decision on 1,000 members allocates %.0f times", name, n)
		}
	}
}
