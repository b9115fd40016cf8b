package checker

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// limited returns a history whose member a may have so many nodes, of two slots each.
func limited(nodes int) *history {
	h := newHistory()
	h.LimitNodes("a", NodeLimit{Nodes: nodes, Slots: 2})
	return h
}

func (h *history) node(uid types.UID) {
	h.ObserveNode(h.now, NodeState{Cluster: "a", UID: uid, Name: string(uid)})
}

// runs makes session n have an assignment in member a, and then changes the assignment.
func (h *history) runs(n int, change ...func(*AssignmentState)) {
	uid := types.UID(fmt.Sprint(n))
	h.Checker.ObserveSession(h.now, SessionState{UID: uid, Epoch: 1, Cluster: "a", Placed: 1})
	h.hub[uid] = SessionState{UID: uid, Epoch: 1, Cluster: "a", Placed: 1}
	f := AssignmentState{Cluster: "a", Session: uid, Epoch: 1}
	for _, of := range append([]func(*AssignmentState){func(*AssignmentState) {}}, change...) {
		of(&f)
		h.member["a"][uid] = f
		h.Checker.ObserveAssignment(h.now, f)
	}
}

func suspended(f *AssignmentState) { f.Suspended = true }
func resumed(f *AssignmentState)   { f.Suspended = false }

var limits = []struct {
	name string
	play func() *history
	want string // the violation, "" for none
}{
	{"as many nodes and sessions as the limit permits", func() *history {
		h := limited(2)
		h.node("n1")
		h.node("n2")
		h.node("n2")
		for n := range 4 {
			h.runs(n)
		}
		return h
	}, ""},
	{"a node more", func() *history {
		h := limited(1)
		h.node("n1")
		h.node("n2")
		h.NodeDeleted(NodeState{Cluster: "a", UID: "n2"})
		return h
	}, "nodes of a: 2, and its limit permits 1"},
	{"a node instead of one that was deleted", func() *history {
		h := limited(1)
		h.node("n1")
		h.NodeDeleted(NodeState{Cluster: "a", UID: "n1"})
		h.node("n2")
		return h
	}, ""},
	{"a node instead of one that is being deleted", func() *history {
		h := limited(1)
		h.node("n1")
		h.ObserveNode(h.now, NodeState{Cluster: "a", UID: "n1", Deleting: true})
		h.node("n2")
		return h
	}, ""},
	{"a session more", func() *history {
		h := limited(1)
		h.runs(1)
		h.runs(2)
		h.runs(3)
		return h
	}, "sessions of a that need a slot: 3, and the nodes that its limit permits have 2 slots"},
	{"a session more than fit without any node", func() *history {
		h := limited(0)
		h.runs(1)
		return h
	}, "sessions of a that need a slot: 1, and the nodes that its limit permits have 0 slots"},
	{"a session that needs no slot any more makes way for another", func() *history {
		h := limited(1)
		h.runs(1, suspended)
		h.runs(2, func(f *AssignmentState) { f.Failed = true })
		h.runs(3, func(f *AssignmentState) { f.Deleting = true })
		h.runs(4, func(f *AssignmentState) { f.ScaleUpFailed = true })
		h.runs(5)
		h.runs(6)
		return h
	}, ""},
	{"a session that is resumed without a slot", func() *history {
		h := limited(1)
		h.runs(1, suspended)
		h.runs(2)
		h.runs(3)
		h.runs(1, resumed)
		return h
	}, "sessions of a that need a slot: 3, and the nodes that its limit permits have 2 slots"},
	{"a lower limit ends nothing", func() *history {
		h := limited(2)
		h.node("n1")
		h.node("n2")
		for n := range 4 {
			h.runs(n)
		}
		h.LimitNodes("a", NodeLimit{Nodes: 1, Slots: 2})
		h.node("n1")
		h.runs(1, func(f *AssignmentState) { f.PodReady = true })
		return h
	}, ""},
	{"a watch that begins again shows a new session before the end of another", func() *history {
		h := limited(1)
		h.runs(1)
		h.runs(2)
		h.runs(3)
		delete(h.member["a"], "1")
		return h
	}, ""},
	{"a session more than fit, whose API server is down", func() *history {
		h := limited(1)
		h.down = true
		for n := range 3 {
			h.runs(n)
		}
		h.pass(time.Second)
		h.down = false
		return h
	}, "sessions of a that need a slot: 3, and the nodes that its limit permits have 2 slots"},
	{"a member without a limit", func() *history {
		h := newHistory()
		h.node("n1")
		h.runs(1)
		return h
	}, ""},
	{"a watch that was interrupted shows a new node before the end of another", func() *history {
		h := limited(1)
		h.node("n1")
		h.SetReachable("a", false)
		h.node("n2")
		h.pass(long)
		h.NodeDeleted(NodeState{Cluster: "a", UID: "n1"})
		h.SetReachable("a", true)
		return h
	}, ""},
	{"a watch that was interrupted shows a node more", func() *history {
		h := limited(1)
		h.node("n1")
		h.SetReachable("a", false)
		h.node("n2")
		h.pass(long)
		h.SetReachable("a", true)
		return h
	}, "nodes of a: 2, and its limit permits 1"},
	{"a member that is watched again", func() *history {
		h := limited(1)
		h.node("n1")
		h.Forget("a")
		h.node("n2")
		return h
	}, ""},
}

func TestNodeLimits(t *testing.T) {
	for _, tc := range limits {
		t.Run(tc.name, func(t *testing.T) {
			h := tc.play()
			h.pass(time.Second)
			h.pass(long)
			h.pass(long)
			switch {
			case tc.want == "" && len(h.found) > 0:
				t.Errorf("violations: %v, want none", h.found)
			case tc.want != "" && (len(h.found) != 1 || h.found[0].Guarantee != 14 || h.found[0].What != tc.want):
				t.Errorf("want one violation of G14: %s\ngot %v", tc.want, h.found)
			}
		})
	}
}

func TestMostNodesAreCounted(t *testing.T) {
	h := limited(3)
	h.node("n1")
	h.node("n2")
	h.NodeDeleted(NodeState{Cluster: "a", UID: "n1"})
	h.node("n3")
	if most := h.MostNodes("a"); most != 2 {
		t.Errorf("%d nodes at once, want 2", most)
	}
}
