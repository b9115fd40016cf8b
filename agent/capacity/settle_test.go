package capacity

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
)

func TestWhatPodsDependOn(t *testing.T) {
	limited := func(nodes int32) func(*Model) {
		return groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = ptr.To(nodes) }))
	}
	tolerant := waits("p", resources(1000, 1), func(p *Pod) {
		p.Tolerations = []corev1.Toleration{{Key: "starting", Operator: corev1.TolerationOpExists}}
	})
	for _, tc := range []struct {
		name    string
		changes []func(*Model)
		after   time.Duration
		want    string
	}{
		{name: "a registered node whose taint it tolerates", changes: []func(*Model){limited(3), nodes(ofPool("a", tainted("starting"))), tolerant}, want: "desktops 2m0s"},
		{name: "a node that is larger than the others", changes: []func(*Model){groups(desktops(ofKarpenter)), nodes(ofPool("a")), waits("p", resources(8000, 1))}, want: "desktops 2m0s"},
		{name: "a node that exists", changes: []func(*Model){limited(3), nodes(ofPool("a"))}, want: ""},
		{name: "a registered node", changes: []func(*Model){limited(3), nodes(ofPool("a", tainted("starting")))}, want: "desktops 2m0s"},
		{name: "a NodeClaim", changes: []func(*Model){groups(desktops(ofKarpenter)), changing(func(g *growth) { g.SetNodeClaim(claim("desktops-x7k2p")) })}, want: "desktops 2m0s"},
		{name: "a node that may be added", changes: []func(*Model){limited(3)}, want: "desktops 2m0s"},
		{name: "no group has its labels", changes: []func(*Model){groups(desktops(withTaint("other")))}, after: time.Minute, want: ""},
		{name: "a full group, for a moment", changes: []func(*Model){limited(1), nodes(ofPool("a")), func(m *Model) { m.SetPod(pod("x", "a", resources(4000, 1))) }}, after: failedFor - time.Second, want: ""},
		{name: "a full group", changes: []func(*Model){limited(1), nodes(ofPool("a")), func(m *Model) { m.SetPod(pod("x", "a", resources(4000, 1))) }}, after: failedFor,
			want: "desktops failed: it has 1 of 1 nodes: raise maxNodes of the MemberCluster"},
		{name: "a group whose nodes are for others", changes: []func(*Model){limited(1), waits("older", resources(4000, 1), func(p *Pod) { p.Times.Created = nine.Add(-time.Minute) })}, after: failedFor,
			want: "desktops failed: the nodes that it may add are for other pending Pods: raise its limits"},
		{name: "a group that adds nothing", changes: []func(*Model){groups(desktops(func(s *nodegroup.Spec) { s.ClusterAutoscalerGroup = "asg" })), changing(func(g *growth) {
			g.setAutoscaler(&nodegroup.AutoscalerStatus{Written: nine, Groups: map[string]nodegroup.AutoscalerGroup{"asg": {Most: 5, BackedOff: true, Message: "Quota 'CPUS' exceeded"}}})
		})}, after: failedFor, want: "desktops failed: InsufficientCapacity, Quota 'CPUS' exceeded: raise the quota, or add a node group"},
		{name: "the autoscaler is dead", changes: []func(*Model){limited(3)}, after: time.Minute + failedFor,
			want: "desktops failed: NotTriggered, the autoscaler has added no node within 1m0s for a Pod that waits for one: is it running, and may it add one for this Pod?; next attempt at 09:06 UTC: check the autoscaler, or add a node group"},
		{name: "another owner's Pod is no sign that the autoscaler is dead", changes: []func(*Model){limited(3), waits("foreign", resources(1000, 1), func(p *Pod) { p.Session = "" }), func(m *Model) {
			for at := range 120 {
				m.Elapsed(nine.Add(time.Duration(at-120) * time.Second))
				m.Report()
			}
		}}, want: "desktops 2m0s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := scene(append([]func(*Model){waits("p", resources(1000, 1))}, tc.changes...)...)
			for at := time.Duration(0); at <= tc.after; at += time.Second {
				before := m.version
				m.Elapsed(nine.Add(at))
				if at == 0 || m.version != before {
					m.Report()
				}
			}
			v := m.pending.views["p"]
			got := ""
			if v.Group != "" {
				got = fmt.Sprintf("%s %s", v.Group, v.Usual)
			}
			if v.Failed != "" {
				got = v.Group + " failed: " + v.Failed
			}
			if got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// A Pod that has had no node for long, for another reason, is no sign that the autoscaler does nothing.
func TestAGroupHasTimeForAPodThatIsOlder(t *testing.T) {
	limit := func(nodes int32) []nodegroup.Spec {
		return []nodegroup.Spec{desktops(func(s *nodegroup.Spec) { s.MaxNodes = ptr.To(nodes) })}
	}
	m := scene(groups(limit(0)...), waits("p", resources(1000, 1)))
	expect := func(after time.Duration, want string) {
		t.Helper()
		for range 2 { // the Pods of the report before count
			m.Elapsed(nine.Add(after))
			m.Report()
		}
		if got := m.Report().NodeGroups[0].State; got != want {
			t.Errorf("after %s it is %s, want %s", after, got, want)
		}
	}
	expect(2*time.Minute, nodegroup.StateFull)
	m.SetNodeGroups(limit(1))
	expect(2*time.Minute, nodegroup.StateAvailable)
	expect(3*time.Minute-time.Second, nodegroup.StateAvailable)
	expect(3*time.Minute, nodegroup.StateExhausted)
}

func TestChangesOfWhatPodsDependOn(t *testing.T) {
	m := scene(groups(desktops()), waits("p", resources(1000, 1)), waits("q", resources(1000, 1)),
		waits("foreign", resources(1000, 1), func(p *Pod) { p.Session = "" }))
	expect := func(when, want string) {
		t.Helper()
		m.Report()
		if got := fmt.Sprint(m.pending.take()); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	expect("at first", "[demo/p demo/q]")
	expect("nothing has changed", "[]")
	m.SetNode(ofPool("a", tainted("starting")))
	expect("a node is being added, which its condition does not show", "[]")
	waits("p", resources(1000, 1), func(p *Pod) { p.Node, p.Times.Unschedulable, p.Times.Bound = "a", time.Time{}, nine })(m)
	expect("one is bound, which has an event of its own", "[]")
	m.SetNodeGroups(nil)
	expect("the group is removed", "[demo/q]")
	if v := m.pending.views["q"]; v.Group != "" {
		t.Errorf("it depends on %s", v.Group)
	}
}
