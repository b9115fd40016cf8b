package capacity

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestRefusalsForLackOfCapacity(t *testing.T) {
	assignment := func(cpu, memory int64, change ...func(*Assignment)) Assignment {
		a := assigned("new", resources(cpu, memory))
		for _, f := range change {
			f(&a)
		}
		return a
	}
	for name, c := range map[string]struct {
		ordered Assignment
		// used is the cpu that other Pods use on two nodes of 4 cpu and 16 GiB.
		used  [2]int64
		scene func(*Model)
		want  string
	}{
		"there is capacity":          {ordered: assignment(1000, 2)},
		"on one node":                {ordered: assignment(4000, 2), used: [2]int64{1000, 0}},
		"on none, though the sum is": {ordered: assignment(4000, 2), used: [2]int64{1000, 2000}, want: "cpu (requested 4, the most free on a node is 3)"},
		"each on another node":       {ordered: assignment(4000, 16), used: [2]int64{1000, 0}, scene: func(m *Model) { m.SetPod(pod("fat", "n1", resources(0, 8))) }, want: "no single node"},
		"none is open": {ordered: assignment(1000, 2), scene: func(m *Model) {
			for i := range 2 {
				m.SetNode(with(machine(fmt.Sprint("n", i), 4000, 16), func(n *Node) { n.Open = false }))
			}
		}, want: "no node that the desktop may use is schedulable"},
		"none is selected": {ordered: assignment(1000, 2, func(a *Assignment) { a.NodeSelector = map[string]string{"gpu": "yes"} }), want: "no node that the desktop may use"},
		"what is on its way is accounted for by the hub": {ordered: assignment(4000, 2), used: [2]int64{4000, 0}, scene: func(m *Model) {
			m.SetAssignment(assigned("other", resources(4000, 2)))
		}},
		"suspended":  {ordered: assignment(64000, 2, func(a *Assignment) { a.Idle = true })},
		"it is here": {ordered: assignment(64000, 2), scene: func(m *Model) { m.SetAssignment(with(assignment(64000, 2), func(a *Assignment) { a.UID = "before" })) }},
		"its Pod is here": {ordered: assignment(64000, 2), scene: func(m *Model) {
			m.SetPod(with(pod("p", "n0", resources(100, 1)), func(p *Pod) { p.Session = assignment(1, 1).Session }))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewModel(restriction.Defaults())
			for i, cpu := range c.used {
				node := fmt.Sprint("n", i)
				m.SetNode(machine(node, 4000, 16))
				m.SetPod(pod(types.UID("other-"+node), node, resources(cpu, 0)))
			}
			if c.scene != nil {
				c.scene(m)
			}
			if got := m.Unschedulable(c.ordered); got != "" != (c.want != "") || !strings.Contains(got, c.want) {
				t.Errorf("it lacks %q, want %q", got, c.want)
			}
		})
	}
}

func TestNothingIsRefusedBeforeTheMemberIsKnown(t *testing.T) {
	w := NewWatcher(Options{})
	a := stored("u", 1, v1alpha1.ModeRunning)
	if lacks := w.Refuses(a); lacks != "" {
		t.Errorf("refused: %s", lacks)
	}
	w.synced = true
	if lacks := w.Refuses(a); lacks == "" {
		t.Error("a member without nodes accepts it")
	}
}
