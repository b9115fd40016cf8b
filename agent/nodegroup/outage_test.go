package nodegroup

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// expectState fails unless a group has this state.
func expectState(t *testing.T, when string, g Group, want, says string) {
	t.Helper()
	if text(g) != want || !strings.Contains(g.Message, says) {
		t.Errorf("%s: got %s: %s\nwant %s: %s", when, text(g), g.Message, want, says)
	}
}

// grows is a scene of a NodePool with a limit and one node.
func grows() *scene {
	s := newScene(ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(5)) }))
	s.SetNode(machine("a"))
	s.group()
	return s
}

// refuse is a NodeClaim that the cloud refuses.
func (s *scene) refuse(message string) {
	s.SetNodeClaim(NodeClaim{Name: "refused", NodePool: "general", Created: s.now, Message: message})
	s.DeleteNodeClaim("refused", s.now)
}

func TestLaunchesFail(t *testing.T) {
	s := grows()
	s.refuse("no g5.xlarge")
	expectState(t, "one failure may be of one instance type", s.after(20*time.Second), "Available 1+0, 4 more", "")
	s.refuse("no g5.2xlarge")
	g := s.group()
	expectState(t, "after 20 s", g, "Exhausted 1+0, 0 more, InsufficientCapacity", "no g5.2xlarge")
	if want := s.now.Add(5 * time.Minute); g.RetryTime != want {
		t.Errorf("it is tried again at %s, want %s", g.RetryTime, want)
	}
	s.refuse("still")
	expectState(t, "until then nothing tries it", s.after(4*time.Minute), "Exhausted 1+0, 0 more, InsufficientCapacity", "no g5.2xlarge")
	expectState(t, "then one session does", s.after(time.Minute), "Exhausted 1+0, 1 more, InsufficientCapacity", "")
	s.refuse("still")
	s.after(15 * time.Second)
	s.refuse("even now")
	expectState(t, "in vain", s.group(), "Exhausted 1+0, 0 more, InsufficientCapacity", "even now")
	if got := s.group().RetryTime.Sub(s.now); got != 10*time.Minute {
		t.Errorf("the second time it waits for %s", got)
	}

	s.after(10 * time.Minute)
	s.SetNodeClaim(NodeClaim{Name: "c", NodePool: "general", Created: s.now, Launched: true, Allocatable: size(16000, 64)})
	expectState(t, "the session's node comes, no second is tried", s.after(time.Second), "Exhausted 1+1, 0 more, InsufficientCapacity", "")
	s.SetNodeClaim(NodeClaim{Name: "c", NodePool: "general", Created: s.now, Node: "b", Launched: true, Initialized: true, Allocatable: size(16000, 64)})
	s.SetNode(machine("b"))
	expectState(t, "it is usable", s.after(time.Second), "Available 2+0, 3 more", "")
	s.refuse("once")
	expectState(t, "failures from before do not count", s.after(time.Second), "Available 2+0, 3 more", "")
}

func TestLaunchesFailWithoutAMessage(t *testing.T) {
	s := grows()
	s.refuse("")
	s.after(15 * time.Second)
	s.refuse("")
	expectState(t, "what is known", s.group(), "Exhausted 1+0, 0 more, InsufficientCapacity", "events InsufficientCapacityError name the cause")
}

func TestBackoffIsBounded(t *testing.T) {
	s := grows()
	for range 8 {
		s.refuse("no")
		s.after(15 * time.Second)
		s.refuse("no")
		s.after(0)
		s.now = s.group().RetryTime
	}
	s.refuse("no")
	s.after(15 * time.Second)
	s.refuse("no")
	if got := s.group().RetryTime.Sub(s.now); got != 30*time.Minute {
		t.Errorf("it waits for %s", got)
	}
}

func TestLaunchTakesTooLong(t *testing.T) {
	s := grows()
	s.SetNodeClaim(NodeClaim{Name: "c", NodePool: "general", Created: s.now})
	expectState(t, "at first", s.after(59*time.Second), "Available 1+1, 3 more", "")
	expectState(t, "after a minute", s.after(time.Second), "Exhausted 1+1, 0 more, InsufficientCapacity", "NodeClaim c was not launched within 1m0s")
}

func TestAutoscalerDoesNothing(t *testing.T) {
	s := grows()
	s.now = s.now.Add(time.Hour)
	s.waiting["desktops"] = Waiting{Pods: []types.UID{"p"}, Since: s.now}
	expectState(t, "at first", s.after(59*time.Second), "Available 1+0, 4 more", "")
	s.SetNodeClaim(NodeClaim{Name: "c", NodePool: "general", Created: s.now, Launched: true, Allocatable: size(16000, 64)})
	expectState(t, "it adds a node", s.after(time.Minute), "Available 1+1, 3 more", "")
	s.DeleteNodeClaim("c", s.now)
	expectState(t, "which goes", s.after(time.Second), "Exhausted 1+0, 0 more, NotTriggered", "is it running")
	s.now = s.group().RetryTime
	expectState(t, "the Pod that waits has a minute again", s.after(59*time.Second), "Exhausted 1+0, 1 more, NotTriggered", "")
	expectState(t, "in vain", s.after(time.Second), "Exhausted 1+0, 0 more, NotTriggered", "")
	raised := ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(6)) })
	s.SetGroups([]Spec{raised})
	s.waiting = nil
	expectState(t, "a changed group is tried at once", s.group(), "Available 1+0, 5 more", "")
}

func TestNodeIsNeverUsable(t *testing.T) {
	s := grows()
	s.SetNodeClaim(NodeClaim{Name: "c", NodePool: "general", Node: "b", Created: s.now, Launched: true, Allocatable: size(16000, 64)})
	s.SetNode(func() Node {
		n := machine("b")
		n.Taints = []corev1.Taint{{Key: "starting", Effect: corev1.TaintEffectNoExecute}}
		return n
	}())
	expectState(t, "at first", s.after(5*time.Minute-time.Second), "Available 1+1, 3 more", "")
	expectState(t, "after five minutes it counts no more", s.after(time.Second), "Exhausted 1+0, 0 more, ProvisioningTimeout", "node b did not become usable within 5m0s")
}

func TestSlowNodesHaveMoreTime(t *testing.T) {
	s := newScene(ofKarpenter(func(s *Spec) { s.MaxNodes, s.ProvisioningTime = ptr(int32(5)), 4*time.Minute }))
	s.SetNode(machine("a"))
	s.group()
	s.SetNodeClaim(NodeClaim{Name: "c", NodePool: "general", Created: s.now, Launched: true, Allocatable: size(16000, 64)})
	expectState(t, "twice the usual time", s.after(8*time.Minute-time.Second), "Available 1+1, 3 more", "")
	expectState(t, "and then", s.after(time.Second), "Exhausted 1+0, 0 more, ProvisioningTimeout", "within 8m0s")
}
