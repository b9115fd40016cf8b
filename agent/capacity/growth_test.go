package capacity

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
)

func TestCapacityOfNodeGroups(t *testing.T) {
	karpenter := groups(desktops(ofKarpenter))
	selects := func(key, value string) func(*requirements) {
		return func(r *requirements) { r.NodeSelector = map[string]string{key: value} }
	}
	inZone := func(m *Model) {
		m.SetStorageClasses(Classes{Default: true, Topologies: map[string][]corev1.TopologySelectorTerm{"": in("a")}})
	}
	home := func(r *requirements) { r.Home = true }
	scaler := func(g nodegroup.AutoscalerGroup) func(*Model) {
		return changing(func(of *growth) {
			of.setAutoscaler(&nodegroup.AutoscalerStatus{Written: nine, Groups: map[string]nodegroup.AutoscalerGroup{"asg": g}})
		})
	}
	withID := func(n *Node) { n.ProviderID = "cloud:///1" }
	launchedAs := func(c *nodegroup.NodeClaim) { c.ProviderID = "cloud:///1" }
	requested := func(c *nodegroup.NodeClaim) {
		c.Created, c.Launched, c.Allocatable, c.Capacity = nine.Add(-time.Second), false, nil, nil
	}
	ofScaler := func(s *nodegroup.Spec) { s.ClusterAutoscalerGroup, s.MaxNodes = "asg", nil }
	for _, tc := range []struct {
		name     string
		requires func(*requirements)
		changes  []func(*Model)
		want     string
	}{
		{name: "a member without nodes", changes: []func(*Model){groups(desktops())}, want: "0+0+12 [3 of desktops]"},
		{name: "one node exists", changes: []func(*Model){groups(desktops()), nodes(ofPool("a"))}, want: "4+0+8 [2 of desktops]"},
		{name: "all nodes exist and are full", changes: []func(*Model){groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = ptr.To(int32(1)) })), nodes(ofPool("a")),
			func(m *Model) { m.SetPod(pod("p", "a", resources(4000, 1))) }}, want: "0+0+0 [0 of desktops]"},
		{name: "no node is permitted", changes: []func(*Model){groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = ptr.To(int32(0)) }))},
			want: "NoMatchingNode: the member has no node"},
		{name: "too small", requires: func(r *requirements) { r.Resources["cpu"] = "5" }, changes: []func(*Model){groups(desktops())},
			want: "NoSuchResource: no node has enough cpu (requested 5, the largest node has 4)"},
		{name: "a group that refuses", changes: []func(*Model){groups(desktops(ofScaler)), scaler(nodegroup.AutoscalerGroup{Most: 5, BackedOff: true})}, want: "0+0+0 [0 of desktops]"},
		{name: "nodes that cluster-autoscaler has requested", changes: []func(*Model){groups(desktops(ofScaler)), scaler(nodegroup.AutoscalerGroup{Target: 2, Most: 5})},
			want: "0+8+12 [3 of desktops]"},

		{name: "a node that its NodeClaim does not name yet", changes: []func(*Model){karpenter, nodes(ofPool("a", withID)),
			changing(func(g *growth) { g.SetNodeClaim(claim("c", launchedAs)) })}, want: "0+4+8 [2 of desktops]"},
		{name: "a node whose NodeClaim is not known to be launched", changes: []func(*Model){karpenter, nodes(ofPool("a", withID, func(n *Node) { n.Created = nine })),
			changing(func(g *growth) { g.SetNodeClaim(claim("c", requested)) })}, want: "0+4+8 [2 of desktops]"},
		{name: "an older node, and a NodeClaim that is not launched", changes: []func(*Model){karpenter, nodes(ofPool("a", withID, func(n *Node) { n.Created = nine.Add(-time.Hour) })),
			changing(func(g *growth) { g.SetNodeClaim(claim("c", requested)) })}, want: "4+4+4 [1 of desktops]"},
		{name: "a Pod on a node that is not known yet", changes: []func(*Model){karpenter,
			changing(func(g *growth) { g.SetNodeClaim(claim("c", launchedAs)) }),
			func(m *Model) { m.SetPod(pod("p", "a", resources(1000, 1))) }}, want: "0+3+8 [2 of desktops]"},

		{name: "a full group of other labels is not shown", requires: selects("name", "large"),
			changes: []func(*Model){groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes, s.Labels["name"] = ptr.To(int32(1)), "a" })), nodes(machine("large", 4000, 32), ofPool("a"))}, want: "4+0+0 []"},

		{name: "DaemonSets are deducted", changes: []func(*Model){groups(desktops()), daemon("d", 1000)}, want: "0+0+9 [3 of desktops]"},
		{name: "of other nodes not", changes: []func(*Model){groups(desktops()), daemon("d", 1000, func(d *DaemonSet) { d.NodeSelector = map[string]string{"pool": "other"} })},
			want: "0+0+12 [3 of desktops]"},
		{name: "a label that kubelets set", changes: []func(*Model){groups(desktops()), daemon("d", 1000, func(d *DaemonSet) { d.NodeSelector = map[string]string{corev1.LabelOSStable: "linux"} })},
			want: "0+0+9 [3 of desktops]"},
		{name: "a taint keeps them away", requires: func(r *requirements) { r.Tolerations = deskTolerations("desktops") },
			changes: []func(*Model){groups(desktops(withTaint("desktops"))), daemon("d", 1000)}, want: "0+0+12 [3 of desktops]"},
		{name: "unless they tolerate it", requires: func(r *requirements) { r.Tolerations = deskTolerations("desktops") },
			changes: []func(*Model){groups(desktops(withTaint("desktops"))), daemon("d", 1000, func(d *DaemonSet) {
				d.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			})}, want: "0+0+9 [3 of desktops]"},
		{name: "with the overhead of their runtime class", changes: []func(*Model){groups(desktops()), daemon("d", 500, func(d *DaemonSet) { d.RuntimeClass = "kata" }),
			func(m *Model) { m.SetRuntimeClasses(map[string]RuntimeClass{"kata": {Overhead: resources(500, 0)}}) }}, want: "0+0+9 [3 of desktops]"},
		{name: "DaemonSets that can't be read", changes: []func(*Model){groups(desktops()), changing(func(g *growth) { g.SetDaemonSets("forbidden") })}, want: "0+0+0 [0 of desktops]"},

		{name: "a selector of the group", requires: selects("pool", "desktops"), changes: []func(*Model){groups(desktops())}, want: "0+0+12 [3 of desktops]"},
		{name: "a selector of others", requires: selects("pool", "other"), changes: []func(*Model){groups(desktops())}, want: "NoMatchingNode: no node has the labels pool=other"},
		{name: "a taint of the group", changes: []func(*Model){groups(desktops(withTaint("desktops")))},
			want: "NoMatchingNode: every matching node has a taint that the template does not tolerate, such as desktops:NoSchedule"},
		{name: "a zone of homes that the group has", requires: home, changes: []func(*Model){inZone, groups(desktops(func(s *nodegroup.Spec) { s.Labels["zone"] = "a" }))},
			want: "0+0+12 [3 of desktops]"},
		{name: "a zone of homes that it has not", requires: home, changes: []func(*Model){inZone, groups(desktops())},
			want: "NoMatchingNode: no matching node is in a topology of the default storage class"},
		{name: "a requirement of the NodePool", requires: selects("disk", "ssd"), changes: []func(*Model){karpenter, nodes(ofPool("a", func(n *Node) { n.Labels["disk"] = "hdd" })),
			changing(func(g *growth) {
				g.SetNodePool(nodegroup.NodePool{Name: "general", Requirements: []nodegroup.Requirement{{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd", "hdd"}}}})
			})}, want: "0+0+8 [2 of desktops]"},

		{name: "one session tries a NodePool without nodes", changes: []func(*Model){karpenter}, want: "0+0+1 [1 of desktops]"},
		{name: "however large it is", requires: func(r *requirements) { r.Resources["cpu"] = "333" }, changes: []func(*Model){karpenter}, want: "0+0+1 [1 of desktops]"},
		{name: "no second one", changes: []func(*Model){karpenter, waits("p", resources(1000, 2))}, want: "0+0+0 []"},
		{name: "nor before its node is launched", changes: []func(*Model){karpenter, waits("p", resources(1000, 2)), changing(func(g *growth) {
			g.SetNodeClaim(claim("c", func(c *nodegroup.NodeClaim) { c.Launched, c.Allocatable, c.Capacity = false, nil, nil }))
		})}, want: "0+0+0 []"},
		{name: "then the rest follow", changes: []func(*Model){karpenter, waits("p", resources(1000, 2)), changing(func(g *growth) { g.SetNodeClaim(claim("c")) })}, want: "0+3+8 [2 of desktops]"},
		{name: "one session larger than the learned shape tries", requires: func(r *requirements) { r.Resources["cpu"] = "8" },
			changes: []func(*Model){karpenter, nodes(ofPool("a"))}, want: "0+0+1 [1 of desktops, 1 of desktops]"},
		{name: "whose node others can't have", changes: []func(*Model){karpenter, nodes(ofPool("a")), waits("p", resources(8000, 2))}, want: "4+0+4 [1 of desktops]"},
		{name: "one at a time", requires: func(r *requirements) { r.Resources["cpu"] = "8" },
			changes: []func(*Model){karpenter, nodes(ofPool("a")), waits("p", resources(8000, 2))}, want: "0+0+0 [1 of desktops]"},
		{name: "a shape that is declared is not exceeded", requires: func(r *requirements) { r.Resources["cpu"] = "8" },
			changes: []func(*Model){groups(desktops(ofKarpenter, func(s *nodegroup.Spec) { s.Allocatable = size(4000, 32) })), nodes(ofPool("a"))},
			want:    "NoSuchResource: no node has enough cpu (requested 8, the largest node has 4)"},

		{name: "a node with a taint of its startup is not free", requires: func(r *requirements) { r.Tolerations = deskTolerations("starting") },
			changes: []func(*Model){groups(desktops()), nodes(ofPool("a", tainted("starting")))}, want: "0+4+8 [2 of desktops]"},
		{name: "nor one whose device is missing", changes: []func(*Model){groups(desktops(func(s *nodegroup.Spec) { s.Allocatable[gpu] = 1 })), nodes(ofPool("a"))}, want: "0+4+8 [2 of desktops]"},
		{name: "nor one whose NodeClaim is not initialized", changes: []func(*Model){karpenter, nodes(ofPool("a")),
			changing(func(g *growth) { g.SetNodeClaim(claim("c", func(c *nodegroup.NodeClaim) { c.Node = "a" })) })}, want: "0+4+8 [2 of desktops]"},
		{name: "it has what is bound to it, and DaemonSets count once", changes: []func(*Model){groups(desktops()), nodes(ofPool("a", tainted("starting"))), daemon("d", 1000), func(m *Model) {
			m.SetPod(with(pod("d1", "a", resources(1000, 0)), func(p *Pod) { p.Daemon = true }))
			m.SetPod(pod("p", "a", resources(1000, 1)))
		}}, want: "0+2+6 [2 of desktops]"},
		{name: "a Pod of a DaemonSet that waits for it counts once", changes: []func(*Model){groups(desktops()), nodes(ofPool("a", tainted("starting")), ofPool("b")), daemon("d", 1000), func(m *Model) {
			m.SetPod(Pod{UID: "d1", Resources: resources(1000, 0), Daemon: true, Times: &PodTimes{Node: "a"}})
		}}, want: "4+3+3 [1 of desktops]"},
		{name: "the labels of a registered node are known", requires: selects(corev1.LabelTopologyZone, "b"), changes: []func(*Model){karpenter,
			nodes(ofPool("a", func(n *Node) { n.Labels[corev1.LabelTopologyZone] = "a" })),
			changing(func(g *growth) {
				g.SetNodeClaim(claim("c", func(c *nodegroup.NodeClaim) { c.Node = "a" }))
				g.SetNodeClaim(claim("d"))
			})}, want: "0+4+4 [1 of desktops]"},

		{name: "unbound Pods take existing nodes first", changes: []func(*Model){groups(desktops()), nodes(ofPool("a"), ofPool("b", tainted("starting"))), waits("p", resources(1000, 1))}, want: "3+4+4 [1 of desktops]"},
		{name: "then provisioning ones", changes: []func(*Model){groups(desktops()), nodes(ofPool("b", tainted("starting"))), waits("p", resources(1000, 1))}, want: "0+3+8 [2 of desktops]"},
		{name: "then growable ones, whose rest remains", changes: []func(*Model){groups(desktops()), waits("p", resources(1000, 1)), waits("q", resources(2000, 1))}, want: "0+0+9 [1 of desktops, 2 of desktops]"},
		{name: "an assignment without a Pod too", changes: []func(*Model){groups(desktops()), func(m *Model) { m.SetAssignment(assigned("s", resources(3000, 1))) }}, want: "0+0+9 [1 of desktops, 2 of desktops]"},
		{name: "those that the group can't serve don't", changes: []func(*Model){groups(desktops()), waits("p", resources(5000, 1)), waits("q", resources(1000, 1), func(p *Pod) { p.NodeSelector = map[string]string{"pool": "other"} })},
			want: "0+0+12 [3 of desktops]"},
		{name: "two groups", changes: []func(*Model){groups(desktops(), desktops(func(s *nodegroup.Spec) { s.Name, s.Labels = "other", map[string]string{"pool": "other"} })), waits("p", resources(4000, 1))},
			want: "0+0+20 [1 of desktops, 2 of desktops, 3 of other]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := desk()
			if tc.requires != nil {
				tc.requires(r)
			}
			m := scene(tc.changes...)
			m.SetTemplates([]*requirements{r})
			if got := summary(m, m.Report(), 0); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestTemplatesShareTheNodesOfAGroup(t *testing.T) {
	m := scene(groups(desktops()))
	m.SetTemplates([]*requirements{desk(), deskWith(func(r *requirements) { r.Name, r.Resources["cpu"] = "large", "2" })})
	r := m.Report()
	if r.Templates[1].BucketsOf != "desk@r1" || len(r.Templates[1].Growable) != 0 {
		t.Errorf("the buckets are repeated: %v", r.Templates[1])
	}
	if got := summary(m, r, 1); got != "0+0+6 [3 of desktops]" {
		t.Errorf("the larger has %s", got)
	}

	m = scene(groups(desktops(ofKarpenter)))
	m.SetTemplates([]*requirements{desk(), deskWith(func(r *requirements) { r.Name, r.Resources["cpu"] = "large", "2" })})
	r = m.Report()
	for i := range r.Templates {
		if got := summary(m, r, i); got != "0+0+1 [1 of desktops]" || r.Templates[i].BucketsOf != "" {
			t.Errorf("of a group that had no node yet, %s: %s", r.Templates[i].Name, got)
		}
	}
}

func TestStatusesOfNodeGroups(t *testing.T) {
	m := scene(groups(desktops(), desktops(func(s *nodegroup.Spec) {
		s.Name, s.Labels, s.MaxNodes = "full", map[string]string{"pool": "full"}, ptr.To(int32(0))
	})),
		nodes(ofPool("a"), ofPool("b", tainted("starting"))))
	all := m.Report().NodeGroups
	if len(all) != 2 {
		t.Fatalf("%d groups", len(all))
	}
	if g := all[0]; g.Name != "desktops" || g.Nodes != 1 || g.Provisioning != 1 || g.Growable != 1 || g.State != nodegroup.StateAvailable ||
		g.MaxNodes != 3 || g.ProvisioningTime.AsDuration() != 2*time.Minute || g.RetryTime != nil {
		t.Errorf("%v", g)
	}
	if g := all[1]; g.State != nodegroup.StateFull || g.Message == "" {
		t.Errorf("%v", g)
	}
	if nodes := m.Report().Nodes; nodes != 1 {
		t.Errorf("%d nodes accept sessions, one of which is not usable yet", nodes)
	}
	m.SetNodeGroups(nil)
	if r := m.Report(); len(r.NodeGroups) != 0 || len(r.Templates[0].Growable) != 0 {
		t.Errorf("without groups: %v", r)
	}
}

func TestRefusalsWhereANodeMayBeAdded(t *testing.T) {
	full := []func(*Model){nodes(ofPool("a")), func(m *Model) { m.SetPod(pod("p", "a", resources(4000, 1))) }}
	for _, tc := range []struct {
		name    string
		cpu     int64
		may     bool
		changes []func(*Model)
		refused bool
	}{
		{"no node groups", 1000, true, full, true},
		{"a node may be added", 1000, true, append([]func(*Model){groups(desktops())}, full...), false},
		{"the hub has not planned that", 1000, false, append([]func(*Model){groups(desktops())}, full...), true},
		{"such a node is too small", 5000, true, append([]func(*Model){groups(desktops())}, full...), true},
		{"no more nodes may be added", 1000, true, append([]func(*Model){groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = ptr.To(int32(1)) }))}, full...), true},
		{"one is being added", 1000, true, append([]func(*Model){groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = ptr.To(int32(2)) })), nodes(ofPool("b", tainted("starting")))}, full...), false},
		{"one is being added, and a node that exists is required", 1000, false, append([]func(*Model){groups(desktops()), nodes(ofPool("b", func(n *Node) { n.Open = true }, tainted("starting")))}, full...), true},
		{"its size is not known", 64000, true, append([]func(*Model){groups(desktops(ofKarpenter))}, func(*Model) {}), false},
		{"other unbound Pods are accounted for by the hub", 1000, true, append([]func(*Model){groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = ptr.To(int32(1)) })), waits("q", resources(4000, 1))}, func(*Model) {}), false},
	} {
		m := scene(tc.changes...)
		a := assigned("new", resources(tc.cpu, 1))
		a.MayAddNode = tc.may
		for _, when := range []string{"at once", "after a report"} {
			if why := m.Unschedulable(a); why != "" != tc.refused {
				t.Errorf("%s, %s: refused with %q", tc.name, when, why)
			}
			m.Report()
		}
	}
}

func TestANodeThatIsNotUsableYetIsNotFree(t *testing.T) {
	a := with(assigned("new", resources(1000, 1)), func(a *Assignment) {
		a.Tolerations = []corev1.Toleration{{Key: "starting", Operator: corev1.TolerationOpExists}}
	})
	m := scene(groups(desktops()), nodes(ofPool("b", tainted("starting"))))
	m.Report()
	if m.Unschedulable(a) == "" {
		t.Error("the node is free")
	}
	m.SetNode(ofPool("b", func(n *Node) { n.Created = nine.Add(-time.Hour) }))
	if m.Report(); m.Unschedulable(a) != "" {
		t.Error("it is not once it is usable")
	}
}

func TestTheTimeOfAStatusIsNoChange(t *testing.T) {
	m := scene(groups(desktops(func(s *nodegroup.Spec) { s.ClusterAutoscalerGroup = "asg" })))
	set := func(at time.Time, most int32) (changed bool) {
		before := m.version
		m.withGroups(func(g *growth) bool {
			return g.setAutoscaler(&nodegroup.AutoscalerStatus{Written: at, Groups: map[string]nodegroup.AutoscalerGroup{"asg": {Most: most}}})
		})
		return m.version != before
	}
	if !set(nine, 1) || set(nine.Add(10*time.Second), 1) || !set(nine.Add(20*time.Second), 2) {
		t.Error("only its groups are a change")
	}
}

func TestTimeIsAChangeOnlyIfAGroupChanges(t *testing.T) {
	m := scene(groups(desktops()), nodes(ofPool("a", tainted("starting"))))
	m.Report()
	for at := range 8 {
		before := m.version
		m.Elapsed(nine.Add(time.Duration(at) * 30 * time.Second))
		if m.version != before {
			t.Fatalf("a change after %d s", at*30)
		}
	}
	before := m.version
	if m.Elapsed(nine.Add(5 * time.Minute)); m.version == before {
		t.Error("a node that takes too long is no change")
	}
	m.Report()
	m.SetNodeGroups(nil)
	before = m.version
	if m.Elapsed(nine.Add(time.Hour)); m.version != before {
		t.Error("time is a change without node groups")
	}
}

func TestUsualTimeIsMeasured(t *testing.T) {
	m := scene(groups(desktops()), nodes(ofPool("a", func(n *Node) { n.Created = nine.Add(30 * time.Second) })))
	for i := range 3 {
		uid := types.UID(fmt.Sprint("p", i))
		waits(uid, resources(100, 0))(m)
		m.Report()
		waits(uid, resources(100, 0), func(p *Pod) { p.Node, p.Times.Bound = "a", nine.Add(time.Duration(40+i)*time.Second) })(m)
	}
	if got := m.Report().NodeGroups[0].ProvisioningTime.AsDuration(); got != 45*time.Second {
		t.Errorf("it usually takes %s", got)
	}
	waits("p0", resources(200, 0), func(p *Pod) { p.Node, p.Times.Bound = "a", nine.Add(40*time.Second) })(m)
	if got := len(m.growth.bound); got != 0 {
		t.Errorf("%d Pods that were bound before are measured again", got)
	}
	again := scene(func(m *Model) {
		for i := range 3 {
			waits(types.UID(fmt.Sprint("p", i)), resources(100, 0), func(p *Pod) { p.Node, p.Times.Bound = "a", nine.Add(time.Duration(40+i)*time.Second) })(m)
		}
	}, nodes(ofPool("a", func(n *Node) { n.Created = nine.Add(30 * time.Second) })), groups(desktops()))
	if got := again.Report().NodeGroups[0].ProvisioningTime.AsDuration(); got != 45*time.Second {
		t.Errorf("an agent that starts again measures %s", got)
	}
}

func TestTimesOfPodsAreNoChangeWithoutNodeGroups(t *testing.T) {
	m := scene()
	waits("p", resources(1000, 1), func(p *Pod) { p.Times.Unschedulable = time.Time{} })(m)
	before := m.version
	if waits("p", resources(1000, 1))(m); m.version != before {
		t.Error("it is one")
	}
	if m.pods["p"].Times.Unschedulable.IsZero() {
		t.Error("it is forgotten, and a node group may need it later")
	}
	m.SetNodeGroups([]nodegroup.Spec{desktops()})
	before = m.version
	if waits("p", resources(1000, 1), func(p *Pod) { p.Times.Unschedulable = nine.Add(time.Second) })(m); m.version == before {
		t.Error("it is none with node groups")
	}
}
