package clusterautoscaler

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// group is a group of nodes with 16 cores.
func group(name string, most int) *groupView {
	return &groupView{Group: &Group{Name: name, MaxSize: most, Node: kwok.NodeGroup{Labels: map[string]string{"pool": name}}}}
}

// pod is a Pod that kube-scheduler found no node for.
func pod(name, cores string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cores)}}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	for _, f := range change {
		f(p)
	}
	return p
}

func pods(count int, cores string) (out []*corev1.Pod) {
	for i := range count {
		out = append(out, pod(fmt.Sprintf("p-%d", i), cores))
	}
	return out
}

// node is a usable node of a group.
func node(g *groupView, name string) *corev1.Node {
	n := g.shape(name)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	g.target, g.registered, g.ready = g.target+1, g.registered+1, g.ready+1
	return n
}

func TestDecide(t *testing.T) {
	on := func(node string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Conditions = node, nil }
	}
	selects := func(pool string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"pool": pool} }
	}
	for name, tc := range map[string]struct {
		view func() *view
		want []string
		// helpless is the reason of the Pod p.
		helpless string
	}{
		"as many nodes as the Pods need": {view: func() *view {
			return &view{groups: []*groupView{group("a", 5)}, pods: pods(7, "5")}
		}, want: []string{"a 0->3 for 7"}},
		"not more than the group may have": {view: func() *view {
			return &view{groups: []*groupView{group("a", 2)}, pods: append(pods(6, "5"), pod("p", "1"), pod("small", "1"))}
		}, want: []string{"a 0->2 for 8"}},
		"beyond its size": {view: func() *view {
			return &view{groups: []*groupView{group("a", 1)}, pods: append(pods(1, "16"), pod("p", "1"))}
		}, want: []string{"a 0->1 for 1"}, helpless: "1 max node group size reached"},
		"none for a Pod that fits on a node": {view: func() *view {
			g := group("a", 5)
			return &view{groups: []*groupView{g}, nodes: []*corev1.Node{node(g, "n")}, pods: []*corev1.Pod{pod("running", "10", on("n")), pod("p", "6")}}
		}},
		"one for a Pod that does not": {view: func() *view {
			g := group("a", 5)
			return &view{groups: []*groupView{g}, nodes: []*corev1.Node{node(g, "n")}, pods: []*corev1.Pod{pod("running", "11", on("n")), pod("p", "6")}}
		}, want: []string{"a 1->2 for 1"}},
		"none while one is requested": {view: func() *view {
			g := group("a", 5)
			g.target = 1
			return &view{groups: []*groupView{g}, pods: []*corev1.Pod{pod("p", "6")}}
		}},
		"none while one is not Ready": {view: func() *view {
			g := group("a", 5)
			n := node(g, "n")
			n.Spec.Taints, g.ready = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}, 0
			return &view{groups: []*groupView{g}, nodes: []*corev1.Node{n}, pods: []*corev1.Pod{pod("p", "6")}}
		}},
		"a node that is not Ready counts once": {view: func() *view {
			g := group("a", 5)
			n := node(g, "n")
			n.Status.Conditions, g.ready = nil, 0
			return &view{groups: []*groupView{g}, nodes: []*corev1.Node{n}, pods: pods(2, "10")}
		}, want: []string{"a 1->2 for 1"}},
		"the largest Pods first": {view: func() *view {
			return &view{groups: []*groupView{group("a", 5)}, pods: []*corev1.Pod{pod("a", "7"), pod("b", "7"), pod("c", "9"), pod("d", "9")}}
		}, want: []string{"a 0->2 for 4"}},
		"in the group that the Pod selects": {view: func() *view {
			return &view{groups: []*groupView{group("a", 5), group("b", 5)}, pods: []*corev1.Pod{pod("p", "6", selects("b"))}}
		}, want: []string{"b 0->1 for 1"}},
		"in the next group if the first is in backoff": {view: func() *view {
			a := group("a", 5)
			a.backoff = &backoff{}
			return &view{groups: []*groupView{a, group("b", 5)}, pods: []*corev1.Pod{pod("p", "6")}}
		}, want: []string{"b 0->1 for 1"}},
		"no group": {view: func() *view {
			a, b, tainted := group("a", 5), group("b", 5), group("tainted", 5)
			a.backoff, b.backoff = &backoff{}, &backoff{}
			tainted.Node.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}
			return &view{groups: []*groupView{a, b, tainted}, pods: []*corev1.Pod{pod("p", "6")}}
		}, helpless: "1 node(s) had untolerated taint(s), 2 in backoff after failed scale-up"},
		"a taint that the Pod tolerates": {view: func() *view {
			g := group("a", 5)
			g.Node.Taints = []corev1.Taint{{Key: "dedicated", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
			return &view{groups: []*groupView{g}, pods: []*corev1.Pod{pod("p", "6", func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Value: "x"}}
			})}}
		}, want: []string{"a 0->1 for 1"}},
		"too large for every group": {view: func() *view {
			return &view{groups: []*groupView{group("a", 5)}, pods: []*corev1.Pod{pod("p", "17")}}
		}, helpless: "1 Insufficient cpu"},
		"a label that no group has": {view: func() *view {
			return &view{groups: []*groupView{group("a", 5)}, pods: []*corev1.Pod{pod("p", "1", selects("gpu"))}}
		}, helpless: "1 node(s) didn't match Pod's node affinity/selector"},
		"Pods that need none": {view: func() *view {
			return &view{groups: []*groupView{group("a", 5)}, pods: []*corev1.Pod{
				pod("new", "1", func(p *corev1.Pod) { p.Status.Conditions = nil }),
				pod("deleted", "1", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }),
				pod("expendable", "1", func(p *corev1.Pod) { p.Spec.Priority = ptr.To[int32](-11) }),
			}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := decide(tc.view())
			var ups []string
			for _, up := range got.increases {
				ups = append(ups, fmt.Sprintf("%s %d->%d for %d", up.group, up.from, up.to, len(up.pods)))
			}
			if !slices.Equal(ups, tc.want) || got.helpless["p"] != tc.helpless {
				t.Errorf("increases %q, want %q; p: %q, want %q", ups, tc.want, got.helpless["p"], tc.helpless)
			}
		})
	}
}

func TestRequestsOfInitContainersAndOverhead(t *testing.T) {
	p := pod("p", "1")
	cores := func(n string, policy *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{RestartPolicy: policy, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}}}
	}
	p.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1")}
	p.Spec.InitContainers = []corev1.Container{cores("500m", ptr.To(corev1.ContainerRestartPolicyAlways)), cores("2", nil)}
	want := map[corev1.ResourceName]int64{corev1.ResourceCPU: 2000, corev1.ResourceMemory: 1, corev1.ResourcePods: 1}
	if got := requestsOf(p); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNodesOfTheCloud(t *testing.T) {
	c, g := newCloud(), &Group{Name: "a", Delay: time.Minute}
	none := func(string) bool { return false }
	c.request(g, 2, start)
	c.setFault("a", Fault{ErrorCode: "QUOTA_EXCEEDED"})
	c.request(g, 1, start)
	if due := c.due(start.Add(59 * time.Second)); len(due) != 0 {
		t.Errorf("%v are due too early", due)
	}
	due := c.due(start.Add(time.Minute))
	if len(due) != 2 || due[0].node != "a-1" || due[1].node != "a-2" {
		t.Errorf("%v are due", due)
	}
	c.setCreated("a-1")
	if due := c.due(start.Add(time.Hour)); len(due) != 1 {
		t.Errorf("%v are due", due)
	}
	got := c.observe(none)
	if got.requested["a"] != 2 || got.failed["a"].ErrorCode != "QUOTA_EXCEEDED" || got.registered["a"] {
		t.Errorf("observed %+v", got)
	}
	got = c.observe(func(node string) bool { return node == "a-1" })
	if got.requested["a"] != 1 || len(got.failed) != 0 || !got.registered["a"] {
		t.Errorf("then observed %+v", got)
	}
}

func TestBackoffDoubles(t *testing.T) {
	s := &scans{backoffs: map[string]*backoff{}, failures: map[string]int{}}
	var lengths []time.Duration
	for range 5 {
		s.fail("a", Fault{}, 5*time.Minute, start)
		lengths = append(lengths, s.backoffs["a"].until.Sub(start)/time.Minute)
	}
	if want := []time.Duration{5, 10, 20, 30, 30}; !slices.Equal(lengths, want) {
		t.Errorf("%d minutes, want %d", lengths, want)
	}
}

func TestOptionsThatAreRejected(t *testing.T) {
	for want, o := range map[string]Options{
		"no node groups":      {},
		"no name of its own":  {Groups: []Group{{Name: "a", MaxSize: 1}, {Name: "a", MaxSize: 1}}},
		"has no maximum size": {Groups: []Group{{Name: "a"}}},
	} {
		if _, err := o.WithDefaults(); err == nil {
			t.Errorf("options are accepted: %s", want)
		}
	}
	o := Options{Groups: []Group{{Name: "a", MaxSize: 1}}}.In("eu", "eu-a")
	n := o.Groups[0].shape("n")
	if n.Labels[corev1.LabelTopologyZone] != "eu-a" || n.Labels[corev1.LabelTopologyRegion] != "eu" || n.Spec.ProviderID != "clusterautoscaler://a/n" {
		t.Errorf("the node is %+v", n)
	}
}
