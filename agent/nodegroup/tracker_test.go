package nodegroup

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

const gi = int64(1) << 30

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func size(cpu, memory int64) Amounts {
	return Amounts{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory * gi, corev1.ResourcePods: 110}
}

// declared is a group of nodes of 16 cores, without a source.
func declared(change ...func(*Spec)) Spec {
	s := Spec{Name: "desktops", MaxNodes: ptr(int32(10)), Labels: map[string]string{"pool": "desktops"}, Allocatable: size(16000, 64), ProvisioningTime: 2 * time.Minute}
	for _, c := range change {
		c(&s)
	}
	return s
}

// ofKarpenter is a group of a NodePool, whose shape is learned.
func ofKarpenter(change ...func(*Spec)) Spec {
	return declared(append([]func(*Spec){func(s *Spec) {
		s.KarpenterNodePool, s.Labels, s.Allocatable, s.MaxNodes = "general", nil, nil, nil
	}}, change...)...)
}

// machine is a usable node of the declared group.
func machine(name string) Node {
	return Node{Name: name, Labels: map[string]string{"pool": "desktops", LabelNodePool: "general"}, Allocatable: size(16000, 64), Capacity: size(16000, 64), Created: start.Add(-time.Hour), Ready: true}
}

// scene is a tracker with one group.
type scene struct {
	*Tracker
	now     time.Time
	waiting map[string]Waiting
}

func newScene(s Spec) *scene {
	t := NewTracker(Times{})
	t.SetKarpenter("")
	t.SetNodePool(NodePool{Name: "general"})
	t.SetGroups([]Spec{s})
	return &scene{Tracker: t, now: start, waiting: map[string]Waiting{}}
}

func (s *scene) group() Group { return s.Groups(s.now, s.waiting)[0] }

func (s *scene) after(d time.Duration) Group {
	s.now = s.now.Add(d)
	return s.group()
}

// text is what matters of a group.
func text(g Group) string {
	out := fmt.Sprintf("%s %d+%d, %d more", g.State, g.Nodes, len(g.Provisioning), g.Growable)
	if g.Reason != "" {
		out += ", " + g.Reason
	}
	return out
}

func TestGrowth(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spec  Spec
		given func(*scene)
		want  string
		says  string
	}{
		{name: "no node", spec: declared(), want: "Available 0+0, 10 more"},
		{name: "some nodes", spec: declared(), given: func(s *scene) { s.SetNode(machine("a")); s.SetNode(machine("b")) }, want: "Available 2+0, 8 more"},
		{name: "full", spec: declared(func(s *Spec) { s.MaxNodes = ptr(int32(1)) }), given: func(s *scene) { s.SetNode(machine("a")) },
			want: "Full 1+0, 0 more", says: "it has 1 of 1 nodes: raise maxNodes of the MemberCluster"},
		{name: "more than it may have", spec: declared(func(s *Spec) { s.MaxNodes = ptr(int32(0)) }), given: func(s *scene) { s.SetNode(machine("a")) }, want: "Full 1+0, 0 more"},
		{name: "another group's node", spec: declared(), given: func(s *scene) {
			n := machine("a")
			n.Labels = map[string]string{"pool": "other"}
			s.SetNode(n)
		}, want: "Available 0+0, 10 more"},
		{name: "a young node that is not Ready", spec: declared(), given: func(s *scene) {
			n := machine("a")
			n.Ready, n.Created = false, start.Add(-time.Minute)
			s.SetNode(n)
		}, want: "Available 0+1, 9 more"},
		{name: "an old node that is not Ready", spec: declared(), given: func(s *scene) {
			n := machine("a")
			n.Ready = false
			s.SetNode(n)
		}, want: "Available 0+0, 9 more"},
		{name: "a young node without its device", spec: declared(func(s *Spec) { s.Allocatable["example.com/gpu"] = 1 }), given: func(s *scene) {
			n := machine("a")
			n.Created = start
			s.SetNode(n)
		}, want: "Available 0+1, 9 more"},
		{name: "a young node with a taint of its startup", spec: declared(), given: func(s *scene) {
			n := machine("a")
			n.Created, n.Taints = start, []corev1.Taint{{Key: "starting", Effect: corev1.TaintEffectNoSchedule}}
			s.SetNode(n)
		}, want: "Available 0+1, 9 more"},
		{name: "a cordoned node is usable", spec: declared(), given: func(s *scene) {
			n := machine("a")
			n.Created, n.Taints = start, []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
			s.SetNode(n)
		}, want: "Available 1+0, 9 more"},
		{name: "no limit", spec: declared(func(s *Spec) { s.MaxNodes = nil }), want: "Unknown 0+0, 0 more, NoLimit", says: "set maxNodes"},
		{name: "no such NodePool", spec: ofKarpenter(func(s *Spec) { s.KarpenterNodePool = "none" }), want: "Unknown 0+0, 0 more, SourceNotFound", says: `the member has no NodePool "none"`},
		{name: "NodePools are not read", spec: ofKarpenter(), given: func(s *scene) { s.SetKarpenter("forbidden") }, want: "Unknown 0+0, 0 more, SourceNotFound", says: "forbidden"},
		{name: "a NodePool that is not Ready", spec: ofKarpenter(), given: func(s *scene) { s.SetNodePool(NodePool{Name: "general", Problem: "is not Ready"}) },
			want: "Unknown 0+0, 0 more, SourceNotFound", says: "NodePool general is not Ready"},
		{name: "a NodePool without limits", spec: ofKarpenter(), want: "Unknown 0+0, 0 more, NoLimit"},
		{name: "one session tries a NodePool without nodes", spec: ofKarpenter(), given: func(s *scene) {
			s.SetNodePool(NodePool{Name: "general", Limits: Amounts{corev1.ResourceCPU: 64000}})
		}, want: "Unknown 0+0, 1 more, ShapeUnknown"},
		{name: "and waits for its node", spec: ofKarpenter(), given: func(s *scene) {
			s.SetNodePool(NodePool{Name: "general", Limits: Amounts{corev1.ResourceCPU: 64000}})
			s.SetNodeClaim(NodeClaim{Name: "c", NodePool: "general", Created: start})
		}, want: "Unknown 0+1, 0 more, ShapeUnknown"},
		{name: "however many it may have", spec: ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(40)) }), given: func(s *scene) {
			s.SetNodeClaim(NodeClaim{Name: "c", NodePool: "general", Created: start})
		}, want: "Unknown 0+1, 0 more, ShapeUnknown"},
		{name: "its shape is known once it was launched", spec: ofKarpenter(), given: func(s *scene) {
			s.SetNodePool(NodePool{Name: "general", Limits: Amounts{corev1.ResourceCPU: 64000}})
			s.SetNodeClaim(NodeClaim{Name: "c", NodePool: "general", Created: start, Launched: true, Allocatable: size(15000, 60), Capacity: size(16000, 64)})
		}, want: "Available 0+1, 3 more"},
		{name: "the lowest limit counts", spec: ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(3)) }), given: func(s *scene) {
			s.SetNodePool(NodePool{Name: "general", Limits: Amounts{corev1.ResourceCPU: 160000, corev1.ResourceMemory: 256 * gi}, MaxNodes: ptr(int32(20))})
			s.SetNode(machine("a"))
			s.SetNodeClaim(NodeClaim{Name: "c", NodePool: "general", Node: "a", Launched: true, Initialized: true, Capacity: size(16000, 64)})
		}, want: "Available 1+0, 2 more"},
		{name: "a limit of memory is reached", spec: ofKarpenter(), given: func(s *scene) {
			s.SetNodePool(NodePool{Name: "general", Limits: Amounts{corev1.ResourceCPU: 160000, corev1.ResourceMemory: 100 * gi}})
			s.SetNode(machine("a"))
		}, want: "Full 1+0, 0 more", says: "its nodes have 64Gi of 100Gi memory"},
		{name: "a limit of a resource that its nodes lack", spec: ofKarpenter(), given: func(s *scene) {
			s.SetNodePool(NodePool{Name: "general", Limits: Amounts{"example.com/gpu": 4}})
			s.SetNode(machine("a"))
		}, want: "Unknown 1+0, 0 more, NoLimit"},
		{name: "a NodeClaim that ends counts for the limit", spec: ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(2)) }), given: func(s *scene) {
			s.SetNode(machine("a"))
			s.SetNodeClaim(NodeClaim{Name: "c", NodePool: "general", Node: "b", Launched: true, Deleting: true, Capacity: size(16000, 64)})
		}, want: "Full 1+0, 0 more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(tc.spec)
			if tc.given != nil {
				tc.given(s)
			}
			g := s.group()
			if text(g) != tc.want || !strings.Contains(g.Message, tc.says) {
				t.Errorf("got  %s: %s\nwant %s: %s", text(g), g.Message, tc.want, tc.says)
			}
		})
	}
}

// The nodes of a group are determined again only after a change.
func TestNodesOfAGroupFollowEachChange(t *testing.T) {
	s := newScene(declared())
	expect := func(when, want string) {
		t.Helper()
		for range 2 {
			if got := text(s.group()); got != want {
				t.Errorf("%s: %s, want %s", when, got, want)
			}
		}
	}
	expect("without nodes", "Available 0+0, 10 more")
	s.SetNode(machine("a"))
	s.SetNode(machine("b"))
	expect("two are added", "Available 2+0, 8 more")
	n := machine("a")
	n.Ready, n.Created = false, s.now
	s.SetNode(n)
	expect("one is not Ready", "Available 1+1, 8 more")
	n.Labels = map[string]string{"pool": "other"}
	s.SetNode(n)
	expect("one is of another group", "Available 1+0, 9 more")
	s.DeleteNode("b")
	expect("one is removed", "Available 0+0, 10 more")
	s.SetGroups([]Spec{declared(func(s *Spec) { s.Labels = map[string]string{"pool": "other"} })})
	expect("the group has other labels", "Available 0+1, 9 more")
}

func TestTwoGroupsOfTheSameNodes(t *testing.T) {
	tracker := NewTracker(Times{})
	tracker.SetGroups([]Spec{declared(func(s *Spec) { s.Name = "b" }), declared(func(s *Spec) { s.Name = "a" })})
	all := tracker.Groups(start, nil)
	if all[0].Name != "a" || all[0].State != StateAvailable {
		t.Errorf("the first by name: %+v", all[0])
	}
	if all[1].Reason != ReasonDuplicate || all[1].Growable != 0 {
		t.Errorf("the second: %+v", all[1])
	}
}

// A group of which another has the same nodes does not count these a second time.
func TestADuplicateHasNoNodes(t *testing.T) {
	tracker := NewTracker(Times{})
	tracker.SetGroups([]Spec{declared(), declared(func(s *Spec) { s.Name = "second" })})
	n := machine("a")
	n.Ready, n.Created = false, start
	tracker.SetNode(n)
	all := tracker.Groups(start, nil)
	if len(all[0].Provisioning) != 1 || len(all[1].Provisioning) != 0 || all[1].Possible {
		t.Errorf("%+v", all)
	}
}

func TestWhetherNodesArePossible(t *testing.T) {
	for name, tc := range map[string]struct {
		spec  Spec
		given func(*scene)
		want  bool
	}{
		"a limit":           {spec: declared(), want: true},
		"full":              {spec: declared(func(s *Spec) { s.MaxNodes = ptr(int32(1)) }), given: func(s *scene) { s.SetNode(machine("a")) }, want: true},
		"none is permitted": {spec: declared(func(s *Spec) { s.MaxNodes = ptr(int32(0)) })},
		"no limit":          {spec: declared(func(s *Spec) { s.MaxNodes = nil })},
		"by resources": {spec: ofKarpenter(), given: func(s *scene) {
			s.SetNodePool(NodePool{Name: "general", Limits: Amounts{corev1.ResourceCPU: 1000}})
			s.SetNode(machine("a"))
		}, want: true},
		"none by its source": {spec: ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(5)) }), given: func(s *scene) { s.SetNodePool(NodePool{Name: "general", MaxNodes: ptr(int32(0))}) }},
	} {
		s := newScene(tc.spec)
		if tc.given != nil {
			tc.given(s)
		}
		if got := s.group().Possible; got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestAutoscaler(t *testing.T) {
	spec := declared(func(s *Spec) { s.ClusterAutoscalerGroup, s.MaxNodes = "asg-1", nil })
	status := func(g AutoscalerGroup) *AutoscalerStatus {
		return &AutoscalerStatus{Written: start, Groups: map[string]AutoscalerGroup{"asg-1": g}}
	}
	for _, tc := range []struct {
		name, want, says string
		status           *AutoscalerStatus
	}{
		{name: "no status", want: "Unknown 1+0, 0 more, SourceNotFound", says: "cluster-autoscaler-status"},
		{name: "unreadable", status: &AutoscalerStatus{Problem: "no yaml"}, want: "Unknown 1+0, 0 more, SourceNotFound", says: "no yaml"},
		{name: "old", status: &AutoscalerStatus{Written: start.Add(-4 * time.Minute)}, want: "Unknown 1+0, 0 more, SourceNotFound", says: "since 08:56 UTC"},
		{name: "another group", status: &AutoscalerStatus{Written: start}, want: "Unknown 1+0, 0 more, SourceNotFound", says: `no node group "asg-1"`},
		{name: "nodes that are requested", status: status(AutoscalerGroup{Target: 3, Most: 5}), want: "Available 1+2, 2 more"},
		{name: "more nodes requested than a member can have", status: status(AutoscalerGroup{Target: 1 << 30, Most: 1 << 30}), want: "Full 1+10000, 0 more"},
		{name: "at its limit", status: status(AutoscalerGroup{Target: 5, Most: 5}), want: "Full 1+4, 0 more"},
		{name: "refused by the cloud", status: status(AutoscalerGroup{Target: 1, Most: 5, BackedOff: true, Message: "QUOTA_EXCEEDED"}), want: "Exhausted 1+0, 0 more, InsufficientCapacity", says: "QUOTA_EXCEEDED"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(spec)
			s.SetNode(machine("a"))
			s.SetAutoscaler(tc.status)
			if g := s.group(); text(g) != tc.want || !strings.Contains(g.Message, tc.says) {
				t.Errorf("got  %s: %s\nwant %s: %s", text(g), g.Message, tc.want, tc.says)
			}
		})
	}
	s := newScene(spec)
	s.SetAutoscaler(status(AutoscalerGroup{Most: 5, BackedOff: true}))
	s.group()
	s.SetAutoscaler(status(AutoscalerGroup{Most: 5}))
	if g := s.group(); g.State != StateAvailable {
		t.Errorf("it retries by itself: %+v", g)
	}
}

func TestShape(t *testing.T) {
	s := newScene(ofKarpenter(func(s *Spec) { s.MaxNodes = ptr(int32(3)) }))
	s.SetNodePool(NodePool{
		Name: "general", Labels: map[string]string{"team": "a"}, Taints: []corev1.Taint{{Key: "desktops", Effect: corev1.TaintEffectNoSchedule}},
		Requirements: []Requirement{
			{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd", "nvme"}},
			{Key: "generation", Operator: corev1.NodeSelectorOpGt, Values: []string{"5"}},
			{Key: "odd", Operator: "Unheard", Values: []string{"5"}},
		},
	})
	s.SetNode(machine("a"))
	shape := s.group().Shape
	if len(shape.Taints) != 1 || !shape.Learned || shape.Allocatable[corev1.ResourceCPU] != 16000 {
		t.Errorf("%+v", shape)
	}
	for label, want := range map[string]bool{
		"team=a": true, "team=b": false, "disk=nvme": true, "disk=hdd": false, "generation=6": true, "generation=5": false,
		"odd=5": false, "unheard=of": false, corev1.LabelTopologyZone + "=eu-1a": true, "karpenter.k8s.aws/instance-size=large": true,
		LabelNodePool + "=general": true, LabelNodePool + "=other": false,
	} {
		if key, value, _ := strings.Cut(label, "="); shape.Admits(key, value) != want {
			t.Errorf("%s: %t", label, !want)
		}
	}
}

func TestUsualTime(t *testing.T) {
	s := newScene(declared())
	n := machine("a")
	n.Created = start.Add(10 * time.Second)
	s.SetNode(n)
	took := func(d time.Duration) { s.Scheduled("a", start, start.Add(d)) }
	took(40 * time.Second)
	took(41 * time.Second)
	s.Scheduled("a", start.Add(time.Minute), start.Add(time.Hour)) // the node was there before
	s.Scheduled("unknown", start, start.Add(time.Hour))
	if got := s.group().Usual; got != 2*time.Minute {
		t.Errorf("of two nodes: %s", got)
	}
	took(62 * time.Second)
	if got := s.group().Usual; got != 65*time.Second {
		t.Errorf("of three nodes: %s", got)
	}
	took(70 * time.Second)
	if got := s.group().Usual; got != 65*time.Second {
		t.Errorf("a small change is not reported: %s", got)
	}
	for range measured {
		took(20 * time.Second)
	}
	if got := s.group().Usual; got != 20*time.Second {
		t.Errorf("of the last %d: %s", measured, got)
	}
}

// Whatever happens, a group never has, requests and may add more nodes than its limit, unless more exist.
func TestLimitHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.Int32Range(0, 6).Draw(t, "maxNodes")
		spec := declared(func(s *Spec) { s.MaxNodes = &most })
		switch rapid.IntRange(0, 2).Draw(t, "source") {
		case 1:
			spec.KarpenterNodePool = "general"
		case 2:
			spec.ClusterAutoscalerGroup = "asg-1"
		}
		s := newScene(spec)
		name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		exists := map[string]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"node": func(t *rapid.T) {
				n := machine(name.Draw(t, "node"))
				n.Ready, n.Created = rapid.Bool().Draw(t, "ready"), s.now
				s.SetNode(n)
				exists[n.Name] = true
			},
			"gone": func(t *rapid.T) {
				n := name.Draw(t, "node")
				s.DeleteNode(n)
				delete(exists, n)
			},
			"claim": func(t *rapid.T) {
				s.SetNodeClaim(NodeClaim{
					Name: name.Draw(t, "claim"), NodePool: "general", Node: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "of"),
					Created: s.now, Launched: rapid.Bool().Draw(t, "launched"), Initialized: rapid.Bool().Draw(t, "initialized"),
				})
			},
			"claim gone": func(t *rapid.T) { s.DeleteNodeClaim(name.Draw(t, "claim"), s.now) },
			"status": func(t *rapid.T) {
				s.SetAutoscaler(&AutoscalerStatus{Written: s.now, Groups: map[string]AutoscalerGroup{"asg-1": {
					Target: rapid.Int32Range(0, 6).Draw(t, "target"), Most: rapid.Int32Range(0, 6).Draw(t, "most"), BackedOff: rapid.Bool().Draw(t, "backed off"),
				}}})
			},
			"time": func(t *rapid.T) {
				s.now = s.now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "seconds")) * time.Second)
			},
			"waits": func(t *rapid.T) {
				s.waiting["desktops"] = Waiting{Pods: []types.UID{"p"}, Since: s.now}
			},
			"": func(t *rapid.T) {
				g := s.group()
				if g.Growable < 0 {
					t.Fatalf("%+v", g)
				}
				if all := int32(len(exists)) + g.Growable; g.Growable > 0 && all > most {
					t.Fatalf("%d nodes exist, and %d more may be added, of %d: %+v", len(exists), g.Growable, most, g)
				}
			},
		})
	})
}
