package capacity

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// elastic are the objects of a member with a node group that were set last, without any model.
type elastic struct {
	facts
	most    int32
	daemons int64
	now     time.Time
}

func (e *elastic) inGroup(n Node) bool { return n.Labels["pool"] == "desktops" }

// starting reports whether a node of the group is not usable yet. After five minutes it is not waited for any
// more, and free for what tolerates its taint.
func (e *elastic) starting(n Node) bool {
	return e.inGroup(n) && len(n.Taints) > 0 && e.now.Sub(n.Created) < 5*time.Minute
}

// actions set what is drawn in a model.
func (e *elastic) actions(m *Model) map[string]func(*rapid.T) {
	node := rapid.SampledFrom(names("n", 5))
	uid := rapid.SampledFrom(names("u", 8))
	limit := func(t *rapid.T) {
		e.most = rapid.Int32Range(0, 6).Draw(t, "maxNodes")
		groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = ptr.To(e.most) }))(m)
		m.Elapsed(e.now)
	}
	return map[string]func(*rapid.T){
		"limit": limit,
		"daemons": func(t *rapid.T) {
			e.daemons = rapid.Int64Range(0, 3).Draw(t, "cpu") * 500
			daemon("d", e.daemons)(m)
		},
		"node": func(t *rapid.T) {
			n := ofPool(node.Draw(t, "node"), func(n *Node) { n.Created = e.now })
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				n.Labels = map[string]string{}
			case 1:
				tainted("starting")(&n)
			}
			e.nodes[n.Name] = n
			m.SetNode(n)
		},
		"node gone": func(t *rapid.T) {
			name := node.Draw(t, "node")
			delete(e.nodes, name)
			m.DeleteNode(name)
		},
		"Pod": func(t *rapid.T) {
			p := Pod{UID: types.UID(uid.Draw(t, "pod")), Resources: resources(rapid.Int64Range(1, 8).Draw(t, "cpu")*500, 1)}
			p.Times = &PodTimes{Created: e.now, Unschedulable: e.now}
			if rapid.Bool().Draw(t, "bound") {
				p.Node, p.Times = node.Draw(t, "node"), nil
			}
			e.pods[p.UID] = p
			m.SetPod(p)
		},
		"Pod gone": func(t *rapid.T) {
			u := types.UID(uid.Draw(t, "pod"))
			delete(e.pods, u)
			m.DeletePod(u)
		},
		"assignment": func(t *rapid.T) {
			u := types.UID(uid.Draw(t, "session"))
			a := assigned(u, resources(rapid.Int64Range(1, 8).Draw(t, "cpu")*500, 1))
			e.assignments[a.UID] = a
			m.SetAssignment(a)
		},
		"time": func(t *rapid.T) {
			e.now = e.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
			m.Elapsed(e.now)
		},
	}
}

// Whatever happens, what is reported as free, provisioning and growable is never more than what the nodes within
// the limits hold.
func TestNoMoreIsReportedThanTheLimitsAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &elastic{facts: facts{nodes: map[string]Node{}, pods: map[types.UID]Pod{}, assignments: map[types.UID]Assignment{}}, now: nine}
		m := scene()
		m.SetTemplates([]*requirements{
			deskWith(func(r *requirements) {
				r.Resources, r.Tolerations = quantities(resources(500, 1)), deskTolerations("starting")
			}),
			deskWith(func(r *requirements) { r.Name, r.Resources = "large", quantities(resources(1500, 2)) }),
		})
		actions := e.actions(m)
		actions["limit"](t)
		actions[""] = func(t *rapid.T) { e.check(t, m) }
		t.Repeat(actions)
	})
}

func (e *elastic) check(t *rapid.T, m *Model) {
	r := m.Report()
	for i, tr := range r.Templates {
		perPod := m.templates[i].perPod
		buckets := tr
		if tr.BucketsOf != "" {
			buckets = r.Templates[0]
		}
		free, starting, have := e.there(m.templates[i])
		empty := perPod.timesIn(Resources(size(4000, 32)).minus(resources(e.daemons, 0).ofPod()))
		more := int64(max(e.most-have, 0))
		if got := slotsIn(convert.BucketsOf(r, tr), perPod); got > free || int64(tr.Slots) != got {
			t.Fatalf("%s: %d slots are free, and %d reported", tr.Name, free, got)
		}
		if got := slotsIn(buckets.Provisioning, perPod); got > starting*empty {
			t.Fatalf("%s: %d slots on %d provisioning nodes of %d", tr.Name, got, starting, empty)
		}
		if got := slotsIn(buckets.Growable, perPod); got > more*empty || int64(tr.GrowableSlots) != got {
			t.Fatalf("%s: %d slots on %d growable nodes of %d", tr.Name, got, more, empty)
		}
		if nodes := nodesIn(buckets.Growable); nodes > more {
			t.Fatalf("%s: %d growable nodes of %d", tr.Name, nodes, more)
		}
	}
}

// there returns the slots that are free on usable nodes, and how many nodes of the group are starting and exist.
func (e *elastic) there(template *template) (free, starting int64, have int32) {
	for _, n := range e.nodes {
		if e.inGroup(n) {
			have++
		}
		if e.starting(n) {
			starting++
			continue
		}
		if untolerated(n.Taints, template.tolerations, false) != nil {
			continue
		}
		left := n.Allocatable.minus(nil)
		for _, p := range e.pods {
			if p.Node == n.Name {
				left.add(p.Resources.ofPod(), -1)
			}
		}
		free += template.perPod.timesIn(left)
	}
	return free, starting, have
}

func nodesIn(buckets []*fleetv1.Bucket) (nodes int64) {
	for _, b := range buckets {
		nodes += int64(b.Nodes)
	}
	return nodes
}

// As many sessions as slots were reported, of all kinds, each depend on a node: none is left over, and each costs
// one slot.
func TestEverySlotTakesASession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := scene(groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = ptr.To(rapid.Int32Range(0, 5).Draw(t, "maxNodes")) })))
		for _, name := range names("n", rapid.IntRange(0, 4).Draw(t, "nodes")) {
			n := ofPool(name)
			if rapid.Bool().Draw(t, "starting") {
				tainted("starting")(&n)
			}
			m.SetNode(n)
			m.SetPod(pod(types.UID("on-"+name), name, resources(rapid.Int64Range(0, 8).Draw(t, "used")*500, 1)))
		}
		daemon("d", rapid.Int64Range(0, 2).Draw(t, "daemons")*500)(m)
		total := func() int64 {
			r := m.Report().Templates[0]
			perPod := m.templates[0].perPod
			return slotsIn(r.Buckets, perPod) + slotsIn(r.Provisioning, perPod) + slotsIn(r.Growable, perPod)
		}
		before := total()
		count := rapid.Int64Range(0, before).Draw(t, "sessions")
		for i := range count {
			m.SetAssignment(assigned(types.UID(fmt.Sprint("s", i)), resources(1000, 2)))
		}
		if after := total(); after != before-count {
			t.Fatalf("%d sessions cost %d slots", count, before-after)
		}
		for owner, d := range m.growth.depends {
			if d.kind != onProvisioning && d.kind != onGrowable {
				t.Fatalf("%s has no node: %+v", owner, d)
			}
		}
		m.SetAssignment(assigned("one-more", resources(1000, 2)))
		if after := total(); after != max(before-count-1, 0) {
			t.Fatalf("%d slots remain of %d with %d sessions", after, before, count+1)
		}
	})
}

// Without node groups nothing is different, in bytes too: with groups that admit nothing, only their states are
// reported besides.
func TestNodeGroupsOfOthersChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain, other := scene(), scene(groups(desktops(withTaint("other"))))
		for _, name := range names("n", rapid.IntRange(0, 4).Draw(t, "nodes")) {
			n := drawNode(t, name)
			plain.SetNode(n)
			other.SetNode(n)
		}
		for _, name := range names("p", rapid.IntRange(0, 6).Draw(t, "pods")) {
			p := Pod{UID: types.UID(name), Resources: drawResources(t, 6)}
			if rapid.Bool().Draw(t, "bound") {
				p.Node = "n0"
			}
			plain.SetPod(p)
			other.SetPod(p)
		}
		want, got := plain.Report(), other.Report()
		if len(want.NodeGroups) != 0 || len(got.NodeGroups) != 1 {
			t.Fatalf("%d and %d states", len(want.NodeGroups), len(got.NodeGroups))
		}
		got.NodeGroups = nil
		got.Templates[0].Reason, got.Templates[0].Message = want.Templates[0].Reason, want.Templates[0].Message
		if want.String() != got.String() {
			t.Fatalf("want %v\ngot %v", want, got)
		}
	})
}
