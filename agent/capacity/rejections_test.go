package capacity

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// sized returns an assignment of a template's session, whose Pod waits names.
func sized(pod types.UID, template string, r Resources) Assignment {
	return Assignment{UID: "a-" + pod, Session: "session-" + pod, Template: template, Revision: "r1", Resources: r}
}

// waitsFor returns a session of a template whose Pod waits for a node. The Pod requests more than its desktop.
func waitsFor(pod types.UID, template string, r Resources, change ...func(*Pod)) func(*Model) {
	return func(m *Model) {
		m.SetAssignment(sized(pod, template, r))
		waits(pod, r.plus(resources(10, 0)), change...)(m)
	}
}

// rejected records that an autoscaler adds no node for the sessions of a template with these requests.
func rejected(template string, r Resources, by nodegroup.Autoscaler) func(*Model) {
	return func(m *Model) {
		a := sized("", template, r)
		reject(m, a.class(), []nodegroup.Rejection{{By: by, Message: "1 Insufficient cpu", Time: m.now}})
	}
}

func classOfDesk(r Resources) func(*Model) { return rejected("desk", r, nodegroup.ClusterAutoscaler) }

func TestVetoesInReports(t *testing.T) {
	deskOf := resources(1000, 2)
	for _, tc := range []struct {
		name    string
		changes []func(*Model)
		want    string
	}{
		{name: "of the template", changes: []func(*Model){groups(desktops()), classOfDesk(deskOf)}, want: "0+0+0 []; 0+0+6 [3 of desktops]"},
		{name: "of sessions of it with other requests", changes: []func(*Model){groups(desktops()), classOfDesk(resources(3000, 2))}, want: "0+0+12 [3 of desktops]; 0+0+6 [3 of desktops]"},
		{name: "nodes that exist and that are being added are for it", changes: []func(*Model){groups(desktops()), nodes(ofPool("a"), ofPool("b", tainted("starting"))), classOfDesk(deskOf)},
			want: "4+4+0 []; 2+2+2 [1 of desktops]"},
		{name: "nor is what others leave of a node that must be added", changes: []func(*Model){groups(desktops()), waitsFor("p", "large", resources(2000, 2)), classOfDesk(deskOf)},
			want: "0+0+0 []; 0+0+4 [1 of desktops, 2 of desktops]"},
		{name: "by an autoscaler of other groups", changes: []func(*Model){groups(desktops(ofKarpenter)), classOfDesk(deskOf)}, want: "0+0+1 [1 of desktops]; 0+0+1 [1 of desktops]"},
		{name: "by Karpenter", changes: []func(*Model){groups(desktops(ofKarpenter)), rejected("desk", deskOf, nodegroup.Karpenter)}, want: "0+0+0 []; 0+0+1 [1 of desktops]"},
	} {
		m := scene(tc.changes[0])
		m.SetTemplates([]*requirements{desk(), deskWith(func(r *requirements) { r.Name, r.Resources["cpu"] = "large", "2" })})
		m.Report()
		for _, change := range tc.changes[1:] {
			change(m)
		}
		r := m.Report()
		if got := summary(m, r, 0) + "; " + summary(m, r, 1); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.name, got, tc.want)
		}
	}
}

// A decision that was made before the hub has a veto must not count on the nodes of the Pods that have it.
func TestPodsWithAVetoHoldNodesUntilTheirScaleUpHasFailed(t *testing.T) {
	large, most := resources(3000, 2), int32(2)
	m := scene(groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = &most })), waitsFor("p", "desk", large), waitsFor("q", "desk", large))
	m.SetTemplates([]*requirements{deskWith(func(r *requirements) { r.Name, r.Resources["cpu"] = "office", "2" })})
	expect := func(after time.Duration, want string) {
		t.Helper()
		m.Elapsed(nine.Add(after))
		if got := summary(m, m.Report(), 0) + " " + m.pending.views["p"].Failed; !strings.HasPrefix(got, want) {
			t.Errorf("after %s: %s, want %s", after, got, want)
		}
	}
	expect(0, "0+0+0 [2 of desktops]")
	classOfDesk(large)(m)
	expect(0, "0+0+0 [2 of desktops]")
	expect(failedFor-time.Second, "0+0+0 [2 of desktops]")
	expect(failedFor, "0+0+4 [2 of desktops] cluster-autoscaler adds none for this desktop")
	m.SetNode(ofPool("a", tainted("starting")))
	expect(failedFor, "0+0+2 [1 of desktops]")
	if v := m.pending.views["p"]; v.Failed != "" {
		t.Errorf("although a node is being added for it: %s", v.Failed)
	}
}

func TestRefusalsOfVetoedSessions(t *testing.T) {
	m := scene(groups(desktops()))
	m.Report()
	classOfDesk(resources(1000, 2))(m)
	m.Report()
	for _, tc := range []struct {
		template string
		cpu      int64
		refused  bool
	}{{"desk", 1000, true}, {"desk", 2000, false}, {"office", 1000, false}} {
		a := sized("new", tc.template, resources(tc.cpu, 2))
		a.MayAddNode = true
		if why := m.Unschedulable(a); why != "" != tc.refused {
			t.Errorf("%s of %d: refused with %q", tc.template, tc.cpu, why)
		}
	}
	m.SetNode(ofPool("b", tainted("starting")))
	m.Report()
	a := sized("new", "desk", resources(1000, 2))
	a.MayAddNode = true
	if why := m.Unschedulable(a); why != "" {
		t.Errorf("although a node is being added: %s", why)
	}
}

// The class of a Pod is that of its session's assignment that is to run, as it is now.
func TestClassOfAPodFollowsItsAssignment(t *testing.T) {
	m := scene(groups(desktops()), waits("p", resources(1000, 2)), waits("q", resources(1000, 2)))
	expect := func(when string, want ...string) {
		t.Helper()
		for range 2 {
			var got []string
			for _, p := range podGroups(m) {
				got = append(got, fmt.Sprintf("%d %s", p.count, p.key.class.Template))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
	}
	expect("without assignments", "2 ")
	m.SetAssignment(sized("p", "desk", resources(1000, 2)))
	m.SetAssignment(sized("q", "desk", resources(1000, 2)))
	expect("of one template", "2 desk")
	m.SetAssignment(sized("q", "office", resources(1000, 2)))
	expect("one has another", "1 office", "1 desk")
	m.SetAssignment(with(sized("p", "gone", resources(1000, 2)), func(a *Assignment) { a.UID, a.Idle = "0", true }))
	expect("of an earlier placement, which stops", "1 office", "1 desk")
	m.SetAssignment(with(sized("p", "desk", resources(1000, 2)), func(a *Assignment) { a.Idle = true }))
	m.SetAssignment(with(sized("p", "next", resources(1000, 2)), func(a *Assignment) { a.UID = "1" }))
	expect("the later one runs", "1 office", "1 next")
	before := podGroups(m)[1].key
	m.SetAssignment(with(sized("p", "desk", resources(1000, 2)), func(a *Assignment) { a.Idle, a.Home = true, true }))
	if podGroups(m)[0].key == before || podGroups(m)[1].key == before {
		t.Error("the home of the earlier one is not part of the key")
	}
	m.SetAssignment(with(sized("p", "desk", resources(1000, 2)), func(a *Assignment) { a.Idle = true }))
	m.SetNodeGroups(nil)
	expect("without node groups", "2 ")
	groups(desktops())(m)
	expect("with node groups again", "1 office", "1 next")
	m.DeleteAssignment("a-q")
	expect("one without an assignment", "1 next", "1 ")
}

func TestAVetoedPodDependsOnAnotherGroup(t *testing.T) {
	karpenter := desktops(ofKarpenter)
	closed := desktops(func(s *nodegroup.Spec) { s.Name = "other" })
	for _, tc := range []struct {
		groups []nodegroup.Spec
		want   string
	}{
		{[]nodegroup.Spec{karpenter, closed}, "other, "},
		{[]nodegroup.Spec{karpenter}, "desktops, Karpenter adds none for this desktop, 1 Insufficient cpu: check its resources and the node selector of its template, or add a node group"},
		{[]nodegroup.Spec{desktops(ofKarpenter, func(s *nodegroup.Spec) { s.Allocatable = size(4000, 32) })},
			"desktops, Karpenter adds none for this desktop, 1 Insufficient cpu: check its resources and the node selector of its template, or add a node group"},
	} {
		m := scene(groups(tc.groups...), waitsFor("p", "desk", resources(1000, 2)))
		m.Report()
		if got := m.pending.views["p"].Group; got != "desktops" {
			t.Fatalf("at first it depends on %q", got)
		}
		rejected("desk", resources(1000, 2), nodegroup.Karpenter)(m)
		for at := range 7 {
			m.Elapsed(nine.Add(time.Duration(at) * time.Second))
			m.Report()
		}
		v := m.pending.views["p"]
		if got := v.Group + ", " + v.Failed; got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

func TestRemedyForALimitOfTheAutoscaler(t *testing.T) {
	m := scene(groups(desktops()), waitsFor("p", "desk", resources(1000, 2)))
	m.Report()
	a := sized("p", "desk", resources(1000, 2))
	reject(m, a.class(), []nodegroup.Rejection{{By: nodegroup.ClusterAutoscaler, Message: "max cluster cpu limit reached", Time: nine, Limited: true}})
	m.Report()
	m.Elapsed(nine.Add(failedFor))
	m.Report()
	const want = "cluster-autoscaler adds none for this desktop, max cluster cpu limit reached: raise the limits of the autoscaler, or add a node group"
	if got := m.pending.views["p"].Failed; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRejectedPodsDoNotExhaustAGroup(t *testing.T) {
	limited := func(nodes int32) nodegroup.Spec {
		return desktops(func(s *nodegroup.Spec) { s.MaxNodes = &nodes })
	}
	// run returns when the group becomes exhausted, and does what is planned at a second.
	run := func(seconds int, m *Model, at map[int]func(*Model)) string {
		for second := range seconds {
			m.Elapsed(nine.Add(time.Duration(second) * time.Second))
			if do := at[second]; do != nil {
				do(m)
			}
			if m.Report().NodeGroups[0].State == nodegroup.StateExhausted {
				return fmt.Sprintf("exhausted after %d s", second)
			}
		}
		return "never"
	}
	deskOf := resources(1000, 2)
	regroup := func(m *Model) { m.SetNodeGroups([]nodegroup.Spec{limited(4)}) }
	for _, tc := range []struct {
		name  string
		start []func(*Model)
		at    map[int]func(*Model)
		want  string
	}{
		{name: "without an event", start: []func(*Model){waitsFor("p", "desk", deskOf)}, want: "exhausted after 60 s"},
		{name: "rejected", start: []func(*Model){waitsFor("p", "desk", deskOf)}, at: map[int]func(*Model){12: classOfDesk(deskOf)}, want: "never"},
		{name: "another Pod", start: []func(*Model){waitsFor("p", "desk", deskOf), waitsFor("q", "office", deskOf)}, at: map[int]func(*Model){12: classOfDesk(deskOf)}, want: "exhausted after 60 s"},
		{name: "the group changes, and the autoscaler does not repeat it yet", start: []func(*Model){waitsFor("p", "desk", deskOf)},
			at: map[int]func(*Model){12: classOfDesk(deskOf), 100: regroup}, want: "exhausted after 372 s"},
	} {
		m := scene(append([]func(*Model){groups(limited(3))}, tc.start...)...)
		if got := run(900, m, tc.at); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// The end of a veto is a change although nothing else is.
func TestAVetoEnds(t *testing.T) {
	m := scene(groups(desktops()))
	m.Report()
	classOfDesk(resources(1000, 2))(m)
	m.Report()
	for minute, want := range map[int]bool{29: false, 30: true} {
		before := m.version
		m.Elapsed(nine.Add(time.Duration(minute) * time.Minute))
		if changed := m.version != before; changed != want {
			t.Errorf("after %d minutes a change: %t", minute, changed)
		}
		m.Elapsed(nine)
		m.Report()
	}
	m.Elapsed(nine.Add(30 * time.Minute))
	if got := summary(m, m.Report(), 0); got != "0+0+12 [3 of desktops]" {
		t.Errorf("after half an hour: %s", got)
	}
}

func TestWhichPodsEventsAreRead(t *testing.T) {
	m := scene(groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = new(int32(500)) })))
	read := func(after time.Duration) string {
		m.Elapsed(nine.Add(after))
		m.Report()
		var out []string
		for _, q := range eventQueries(m) {
			out = append(out, string(q.uid))
		}
		return strings.Join(out, " ")
	}
	expect := func(when string, after time.Duration, want string) {
		t.Helper()
		if got := read(after); got != want {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	expect("without Pods", 0, "")
	for i := range 300 {
		waitsFor(types.UID(fmt.Sprint("p", i)), "desk", resources(1000, 2), func(p *Pod) { p.Times.Unschedulable = nine.Add(time.Duration(i%100) * time.Second) })(m)
	}
	waitsFor("larger", "desk", resources(2000, 2))(m)
	waitsFor("scheduled", "office", resources(1000, 2), func(p *Pod) { p.Times.Unschedulable = time.Time{} })(m)
	waitsFor("too-large", "huge", resources(5000, 2))(m)
	waits("foreign", resources(1500, 2), func(p *Pod) { p.Session = "" })(m)
	waits("unknown", resources(1500, 2))(m)
	expect("too early", 9*time.Second, "")
	expect("one of each class", 10*time.Second, "larger p0")
	expect("not again yet", 39*time.Second, "")
	m.DeletePod("p0")
	m.DeletePod("larger")
	m.DeletePod("unknown")
	expect("the oldest that is left", 40*time.Second, "p100")
	classOfDesk(resources(1000, 2))(m)
	expect("of those with a veto too", 2*time.Minute, "p100")
	for i := range 300 {
		m.DeletePod(types.UID(fmt.Sprint("p", i)))
	}
	expect("without Pods", 160*time.Second, "")
	if len(m.growth.queried) != 0 {
		t.Errorf("%v are remembered", m.growth.queried)
	}
	for i := range 12 {
		waitsFor(types.UID(fmt.Sprintf("c%02d", i)), fmt.Sprint("t", i), resources(1000, 2))(m)
	}
	expect("of many classes some", 3*time.Minute, "c00 c01 c02 c03 c04 c05 c06 c07")
	expect("the others come first then", 3*time.Minute+30*time.Second, "c08 c09 c10 c11 c00 c01 c02 c03")
	expect("and the rest", 3*time.Minute+35*time.Second, "c04 c05 c06 c07")
	m.SetNodeGroups(nil)
	expect("without node groups none", time.Hour, "")
}

func TestEventsAreNotReadOfPodsOfAFullGroup(t *testing.T) {
	m := scene(groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = new(int32(1)) })), nodes(ofPool("a")), waitsFor("p", "desk", resources(1000, 2)))
	m.SetPod(pod("other", "a", resources(4000, 1)))
	m.Elapsed(nine.Add(time.Minute))
	m.Report()
	if d := m.growth.depends["p"]; d.kind != onFailure {
		t.Fatalf("it depends on %+v", d)
	}
	if all := eventQueries(m); len(all) != 0 {
		t.Errorf("the events of %v are read", all)
	}
}

func TestEventsOfPodsAreRead(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(10 * time.Second)
	f := watchGroups(t)
	lists := func() (out []string) {
		for _, a := range f.client.Actions() {
			if l, ok := a.(clienttesting.ListAction); ok && a.GetResource().Resource == "events" {
				out = append(out, a.GetNamespace()+" "+l.GetListRestrictions().Fields.String())
			}
		}
		return out
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", nil)
	var first atomic.Bool
	first.Store(true)
	f.client.PrependReactor("list", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return first.CompareAndSwap(true, false), nil, forbidden
	})
	f.declare(desktops(func(s *nodegroup.Spec) { s.MaxNodes = new(int32(100)) }))
	g.Eventually(f.growable).Should(BeEquivalentTo(400))
	f.declare(desktops(func(s *nodegroup.Spec) { s.MaxNodes = new(int32(101)) }))
	g.Eventually(f.growable).Should(BeEquivalentTo(404), "the Pods are younger than this change")
	waiting := time.Now().Add(-eventsAfter)
	for i := range 50 {
		f.update(waitsFor(types.UID(fmt.Sprint("p", i)), "desk", resources(1000, 2), func(p *Pod) { p.Times.Unschedulable = waiting.Add(time.Duration(i)) }))
	}
	e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "e"}, Reason: "NotTriggerScaleUp", Message: "pod didn't trigger scale-up: no", LastTimestamp: metav1.Now()}
	e.InvolvedObject.UID = "p0"
	_, err := f.client.CoreV1().Events("demo").Create(t.Context(), e, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(lists).Should(Equal([]string{"demo involvedObject.uid=p0"}))
	g.Consistently(lists, 200*time.Millisecond).Should(HaveLen(1), "one of the class, although it failed")
	f.update(func(m *Model) { m.growth.queried = nil })
	g.Eventually(f.growable).Should(BeZero())
	g.Expect(lists()).To(HaveLen(2))
	f.update(func(m *Model) { m.growth.queried = nil })
	g.Eventually(lists).Should(HaveLen(3), "the veto lasts longer if the Pod is still rejected")
	f.update(func(m *Model) {
		for i := range 50 {
			m.DeletePod(types.UID(fmt.Sprint("p", i)))
		}
	})
	g.Eventually(func() []*fleetv1.NodeGroupStatus { return f.Report().GetNodeGroups() }).ShouldNot(BeEmpty())
	f.update(func(m *Model) { m.growth.queried = nil })
	g.Consistently(lists, 200*time.Millisecond).Should(HaveLen(3), "no Pod waits any more")
}
