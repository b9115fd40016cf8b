package capacity

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

var nine = time.Date(2030, 1, 2, 9, 0, 0, 0, time.UTC)

// size returns the amounts of a node.
func size(cpu, memory int64) nodegroup.Amounts {
	return nodegroup.Amounts(machine("", cpu, memory).Allocatable)
}

// desktops returns a declared group of at most three nodes of 4 cores.
func desktops(change ...func(*nodegroup.Spec)) nodegroup.Spec {
	s := nodegroup.Spec{
		Name: "desktops", MaxNodes: ptr.To(int32(3)), Labels: map[string]string{"pool": "desktops"},
		Allocatable: size(4000, 32), ProvisioningTime: 2 * time.Minute,
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

// ofKarpenter makes a group that of NodePool general, whose shape is learned.
func ofKarpenter(s *nodegroup.Spec) {
	s.KarpenterNodePool, s.Labels, s.Allocatable = "general", nil, nil
}

// groups sets node groups at nine o'clock, whose objects are read.
func groups(all ...nodegroup.Spec) func(*Model) {
	return func(m *Model) {
		m.Elapsed(nine)
		m.SetNodeGroups(all)
		m.withGroups(func(g *growth) bool {
			g.read = [sources]bool{true, true, true}
			g.SetDaemonSets("")
			g.SetKarpenter("")
			g.SetNodePool(nodegroup.NodePool{Name: "general"})
			return true
		})
	}
}

// changing changes the objects of the node groups.
func changing(change func(*growth)) func(*Model) {
	return func(m *Model) { m.withGroups(func(g *growth) bool { change(g); return true }) }
}

// ofPool returns a node of the declared group and of NodePool general.
func ofPool(name string, change ...func(*Node)) Node {
	n := machine(name, 4000, 32)
	n.Labels["pool"], n.Labels[nodegroup.LabelNodePool] = "desktops", "general"
	n.Capacity, n.Created, n.State.Ready = n.Allocatable, nine.Add(-time.Minute), true
	for _, c := range change {
		c(&n)
	}
	return n
}

// claim returns a NodeClaim that was launched.
func claim(name string, change ...func(*nodegroup.NodeClaim)) nodegroup.NodeClaim {
	c := nodegroup.NodeClaim{Name: name, NodePool: "general", Created: nine, Launched: true, Allocatable: size(4000, 32), Capacity: size(4000, 32)}
	for _, f := range change {
		f(&c)
	}
	return c
}

// daemon returns a DaemonSet.
func daemon(name types.UID, cpu int64, change ...func(*DaemonSet)) func(*Model) {
	d := DaemonSet{UID: name, Resources: resources(cpu, 0)}
	for _, f := range change {
		f(&d)
	}
	return changing(func(g *growth) { g.setDaemonSet(d) })
}

// waits returns an unbound Pod of a session, for which kube-scheduler has found no node.
func waits(uid types.UID, r Resources, change ...func(*Pod)) func(*Model) {
	p := Pod{UID: uid, Session: "session-" + uid, Resources: r, Times: &PodTimes{
		Key: types.NamespacedName{Namespace: "demo", Name: string(uid)}, Created: nine, Unschedulable: nine,
	}}
	for _, f := range change {
		f(&p)
	}
	return func(m *Model) { m.SetPod(p) }
}

func tainted(key string) func(*Node) {
	return func(n *Node) { n.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}} }
}

// slotsIn counts the slots of a template in buckets.
func slotsIn(buckets []*fleetv1.Bucket, perPod demand) (slots int64) {
	for _, b := range buckets {
		slots += int64(b.Nodes) * perPod.timesIn(wire(b.Free))
	}
	return slots
}

// summary is what matters of a template's capacity: slots that are free, provisioning and growable, with the nodes
// of the latter.
func summary(m *Model, r *fleetv1.CapacityReport, i int) string {
	t := r.Templates[i]
	if !t.Available {
		return t.Reason + ": " + t.Message
	}
	owner := t
	if t.BucketsOf != "" {
		for _, o := range r.Templates {
			if convert.TemplateRef(o.Name, o.Revision) == t.BucketsOf {
				owner = o
			}
		}
	}
	var nodes []string
	for _, b := range owner.Growable {
		nodes = append(nodes, fmt.Sprintf("%d of %s", b.Nodes, b.NodeGroup))
	}
	perPod := m.templates[i].perPod
	return fmt.Sprintf("%d+%d+%d [%s]", t.Slots, slotsIn(owner.Provisioning, perPod), t.GrowableSlots, strings.Join(nodes, ", "))
}

func withTaint(key string) func(*nodegroup.Spec) {
	return func(s *nodegroup.Spec) { s.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}} }
}

func deskTolerations(key string) []*fleetv1.Toleration {
	return []*fleetv1.Toleration{{Key: key, Operator: "Exists"}}
}
