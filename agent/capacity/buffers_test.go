package capacity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// buffered sets buffers, each as template@revision and slots.
func buffered(all ...*fleetv1.Buffer) func(*Model) {
	return func(m *Model) { setBuffers(m, all) }
}

func desks(slots int32) *fleetv1.Buffer {
	return &fleetv1.Buffer{Template: "desk", Revision: "r1", Slots: slots}
}

// filled returns how much of each buffer fits, as the last report has it.
func filled(m *Model) string {
	m.Report()
	var all []string
	for _, b := range m.buffers.filled.All {
		text := fmt.Sprintf("%s %d of %d", b.Template, b.Fits, b.Slots)
		if b.Requirements == nil {
			text += " unknown"
		}
		if b.Unavailable != "" {
			text += " " + b.Unavailable
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestHowMuchOfABufferFits(t *testing.T) {
	big := deskWith(func(r *requirements) { r.Name, r.Resources = "big", quantities(resources(2000, 2)) })
	limited := func(nodes int32) func(*Model) {
		return groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = ptr.To(nodes) }))
	}
	two := nodes(machine("a", 4000, 32), machine("b", 4000, 32))
	for _, tc := range []struct {
		name    string
		changes []func(*Model)
		want    string
	}{
		{"all of it", []func(*Model){two, buffered(desks(5))}, "desk 5 of 5"},
		{"no slots", []func(*Model){two, buffered(desks(0))}, "desk 0 of 0"},
		{"not more than the nodes hold", []func(*Model){two, buffered(desks(20))}, "desk 8 of 20"},
		{"not what Pods use", []func(*Model){two, buffered(desks(20)), func(m *Model) { m.SetPod(pod("x", "a", resources(3000, 1))) }}, "desk 5 of 20"},
		{"not what assignments will use", []func(*Model){two, buffered(desks(20)), func(m *Model) { m.SetAssignment(assigned("u", resources(3000, 1))) }}, "desk 5 of 20"},
		{"nodes that may be added", []func(*Model){two, limited(2), buffered(desks(20))}, "desk 16 of 20"},
		{"nodes that are being added", []func(*Model){groups(desktops(ofKarpenter, func(s *nodegroup.Spec) { s.MaxNodes = ptr.To[int32](1) })), changing(func(g *growth) { g.SetNodeClaim(claim("c")) }), buffered(desks(20))}, "desk 4 of 20"},
		{"what pending desktops leave of nodes that may be added", []func(*Model){limited(1), waits("p", resources(3000, 1)), buffered(desks(20))}, "desk 1 of 20"},
		{"a probe of a shape that is not known", []func(*Model){groups(desktops(ofKarpenter)), buffered(desks(20))}, "desk 1 of 20"},
		{"a node that is not for the template", []func(*Model){nodes(machine("a", 4000, 32), with(machine("b", 4000, 32), func(n *Node) { n.Open = false })), buffered(desks(20))}, "desk 4 of 20"},
		{"two share the nodes, the first by template first", []func(*Model){two, func(m *Model) { m.SetTemplates([]*requirements{desk(), big}) }, buffered(desks(20), &fleetv1.Buffer{Template: "big", Revision: "r1", Slots: 3})}, "big 3 of 3, desk 2 of 20"},
		{"two share nodes that may be added", []func(*Model){limited(2), func(m *Model) { m.SetTemplates([]*requirements{desk(), big}) }, buffered(desks(20), &fleetv1.Buffer{Template: "big", Revision: "r1", Slots: 3})}, "big 3 of 3, desk 2 of 20"},
		{"another revision than the one that is evaluated", []func(*Model){two, buffered(&fleetv1.Buffer{Template: "desk", Revision: "r2", Slots: 5})}, "desk 0 of 5 unknown"},
		{"a revision that the hub has not read", []func(*Model){two, buffered(&fleetv1.Buffer{Template: "desk", Slots: 5})}, "desk 0 of 5 unknown"},
		{"a template that the member can't run", []func(*Model){two, func(m *Model) {
			m.SetTemplates([]*requirements{deskWith(func(r *requirements) { r.RuntimeClassName = "kata" })})
		}, buffered(desks(5))}, `desk 0 of 5 the member has no runtime class "kata"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := scene(tc.changes...)
			m.Elapsed(nine)
			if got := filled(m); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			if got := filled(m); got != tc.want {
				t.Errorf("the next report has %q", got)
			}
		})
	}
}

// Buffers change nothing of what is reported besides.
func TestBuffersLeaveReportsAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var changes []func(*Model)
		for i := range rapid.IntRange(0, 3).Draw(t, "nodes") {
			changes = append(changes, nodes(ofPool(fmt.Sprint("n", i))))
		}
		if rapid.Bool().Draw(t, "grows") {
			changes = append(changes, groups(desktops(func(s *nodegroup.Spec) { s.MaxNodes = ptr.To(rapid.Int32Range(0, 6).Draw(t, "limit")) })))
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "sessions") {
			changes = append(changes, func(m *Model) {
				m.SetAssignment(assigned(types.UID(fmt.Sprint("u", i)), resources(rapid.Int64Range(500, 4000).Draw(t, "cpu"), 1)))
			})
		}
		m := scene(changes...)
		m.Elapsed(nine)
		without := m.Report()
		slots := rapid.Int32Range(0, 40).Draw(t, "slots")
		setBuffers(m, []*fleetv1.Buffer{desks(slots)})
		with := m.Report()
		if before, after := without.String(), with.String(); before != after {
			t.Fatalf("without buffers\n%s\nwith buffers\n%s", before, after)
		}
		capacity := without.Templates[0]
		most := int64(capacity.Slots) + slotsIn(capacity.Provisioning, m.templates[0].perPod) + int64(capacity.GrowableSlots)
		if fits := m.buffers.filled.All[0].Fits; int64(fits) != min(int64(slots), most) {
			t.Fatalf("%d of %d slots fit, and the member has %d", fits, slots, most)
		}
	})
}

func TestPodsThatKeepSlotsFreeUseNothing(t *testing.T) {
	is := func(priority *int32, labels map[string]string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p", Labels: labels}}
		p.Spec.NodeName, p.Spec.Priority = "a", priority
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}}}}
		return p
	}
	own := map[string]string{v1alpha1.LabelBuffer: "desk", v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	for _, tc := range []struct {
		name        string
		pod         *corev1.Pod
		slots, pods int32
	}{
		{"a buffer's", is(ptr.To[int32](-10), own), 4, 1},
		{"a balloon Pod", is(ptr.To[int32](-1), map[string]string{v1alpha1.LabelBuffer: ""}), 4, 0},
		{"one that desktops do not preempt", is(ptr.To[int32](0), map[string]string{v1alpha1.LabelBuffer: "balloon"}), 1, 0},
		{"one without a priority", is(nil, map[string]string{v1alpha1.LabelBuffer: "balloon"}), 1, 0},
		{"one without the label", is(ptr.To[int32](-10), nil), 1, 0},
	} {
		m := scene(nodes(machine("a", 4000, 32)))
		m.SetPod(PodOf(tc.pod))
		if got := capacityOf(t, m).Slots; got != tc.slots {
			t.Errorf("%s: %d slots", tc.name, got)
		}
		if got := m.buffers.filled.Pods; got != int(tc.pods) {
			t.Errorf("%s: %d Pods of buffers", tc.name, got)
		}
		m.DeletePod("p")
		if m.Report(); m.buffers.filled.Pods != 0 || capacityOf(t, m).Slots != 4 {
			t.Errorf("%s: it is still counted", tc.name)
		}
	}
}

func TestTheClassOfBuffers(t *testing.T) {
	m := scene()
	for _, tc := range []struct {
		list []*schedulingv1.PriorityClass
		want *BufferClass
	}{
		{nil, nil},
		{[]*schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "high", UID: "h"}, Value: 9}, {ObjectMeta: metav1.ObjectMeta{Name: "vdi-buffer", UID: "b"}, Value: -10}}, &BufferClass{"b", -10}},
		{[]*schedulingv1.PriorityClass{{ObjectMeta: metav1.ObjectMeta{Name: "high"}}}, nil},
	} {
		setBufferClass(m, bufferClassOf(tc.list))
		m.Report()
		if got := m.buffers.filled.Class; (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
			t.Errorf("%v, not %v", got, tc.want)
		}
	}
}

// The states of buffers are reported, and each change of what they depend on is announced once.
func TestAWatcherAnnouncesChangesOfBuffersAndReportsTheirStates(t *testing.T) {
	f := watchGroups(t)
	b := BuffersOf(f.Watcher)
	announced := func() bool {
		t.Helper()
		select {
		case <-b.Changes():
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	}
	for announced() { // the first report
	}
	if b.Buffers().Known {
		t.Error("the hub has sent nothing")
	}
	f.SetTemplates(&fleetv1.TemplateSet{Templates: []*requirements{desk()}, Buffers: []*fleetv1.Buffer{desks(3), {Template: "a b"}}})
	if !announced() {
		t.Error("buffers are not announced")
	}
	if got := b.Buffers(); !got.Known || len(got.All) != 1 || got.All[0].Slots != 3 || got.All[0].Requirements.GetName() != "desk" {
		t.Errorf("%+v", got)
	}
	f.update(func(m *Model) { m.SetNode(machine("a", 4000, 32)) })
	if !announced() || b.Buffers().All[0].Fits != 3 {
		t.Errorf("a node: %+v", b.Buffers())
	}
	f.update(func(m *Model) { m.SetNode(machine("b", 4000, 32)) })
	if announced() {
		t.Error("another node changes nothing")
	}
	states := []*fleetv1.BufferStatus{{Template: "desk", Held: 2, Pending: 1}}
	for range 2 {
		b.SetStates(states)
		if announced() {
			t.Error("their states change nothing")
		}
	}
	if got := f.Report(); len(got.Buffers) != 1 || got.Buffers[0].Held != 2 {
		t.Errorf("reported: %v", got.Buffers)
	}
}
