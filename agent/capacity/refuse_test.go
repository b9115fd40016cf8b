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
	asked := func(cpu, memory int64, change ...func(*Assignment)) Assignment {
		a := assigned("new", room(cpu, memory))
		for _, f := range change {
			f(&a)
		}
		return a
	}
	for name, c := range map[string]struct {
		asked Assignment
		// of two nodes of 4 cpu and 16 GiB, how much others have taken.
		taken [2]int64
		scene func(*Model)
		want  string
	}{
		"there is room":              {asked: asked(1000, 2)},
		"on one node":                {asked: asked(4000, 2), taken: [2]int64{1000, 0}},
		"on none, though the sum is": {asked: asked(4000, 2), taken: [2]int64{1000, 2000}, want: "cpu (asked 4, the most that is free on a node is 3)"},
		"each on another node":       {asked: asked(4000, 16), taken: [2]int64{1000, 0}, scene: func(m *Model) { m.SetPod(pod("fat", "n1", room(0, 8))) }, want: "no single node"},
		"none is open": {asked: asked(1000, 2), scene: func(m *Model) {
			for i := range 2 {
				m.SetNode(with(machine(fmt.Sprint("n", i), 4000, 16), func(n *Node) { n.Open = false }))
			}
		}, want: "no node that the desktop may use is open"},
		"none is selected": {asked: asked(1000, 2, func(a *Assignment) { a.NodeSelector = map[string]string{"gpu": "yes"} }), want: "no node that the desktop may use"},
		"what is on its way is the hub's to know": {asked: asked(4000, 2), taken: [2]int64{4000, 0}, scene: func(m *Model) {
			m.SetAssignment(assigned("other", room(4000, 2)))
		}},
		"suspended":  {asked: asked(64000, 2, func(a *Assignment) { a.Idle = true })},
		"it is here": {asked: asked(64000, 2), scene: func(m *Model) { m.SetAssignment(with(asked(64000, 2), func(a *Assignment) { a.UID = "before" })) }},
		"its Pod is here": {asked: asked(64000, 2), scene: func(m *Model) {
			m.SetPod(with(pod("p", "n0", room(100, 1)), func(p *Pod) { p.Session = asked(1, 1).Session }))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := NewModel(restriction.Defaults())
			for i, cpu := range c.taken {
				node := fmt.Sprint("n", i)
				m.SetNode(machine(node, 4000, 16))
				m.SetPod(pod(types.UID("other-"+node), node, room(cpu, 0)))
			}
			if c.scene != nil {
				c.scene(m)
			}
			if got := m.Lacks(c.asked); got != "" != (c.want != "") || !strings.Contains(got, c.want) {
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
		t.Error("a member without nodes takes it")
	}
}
