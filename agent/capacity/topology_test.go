package capacity

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// in returns a topology of these zones.
func in(zones ...string) []corev1.TopologySelectorTerm {
	return []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: zones}}}}
}

func zoned(name, zone string, cpu int64) Node {
	return with(machine(name, cpu, 64), func(n *Node) { n.Labels["zone"] = zone })
}

// homes sets template desk with a home of a storage class.
func homes(class string) func(*Model) {
	return func(m *Model) {
		m.SetTemplates([]*requirements{deskWith(func(r *requirements) { r.Home, r.StorageClassName = true, class })})
	}
}

func classes(topologies map[string][]corev1.TopologySelectorTerm) func(*Model) {
	return func(m *Model) {
		m.SetStorageClasses(Classes{Names: map[string]bool{"fast": true}, Default: true, Topologies: topologies})
	}
}

func TestStorageTopology(t *testing.T) {
	three := nodes(zoned("a", "a", 4000), zoned("b", "b", 3000), zoned("c", "c", 2000))
	fastIn := func(zones ...string) func(*Model) {
		return classes(map[string][]corev1.TopologySelectorTerm{"fast": in(zones...)})
	}
	needsHome := func(uid string) func(*Model) {
		return func(m *Model) {
			a := assigned("s", resources(1000, 2))
			a.Home, a.StorageClass = true, "fast"
			m.SetAssignment(a)
			if uid != "" {
				m.SetPod(Pod{UID: "p", Session: "s", Resources: resources(1000, 2)})
			}
		}
	}
	for _, tc := range []struct {
		name    string
		changes []func(*Model)
		slots   int32
	}{
		{"anywhere", []func(*Model){three, classes(nil), homes("fast")}, 9},
		{"in one zone", []func(*Model){three, fastIn("b"), homes("fast")}, 3},
		{"in one of two zones", []func(*Model){three, fastIn("a", "c"), homes("fast")}, 6},
		{"in one of two terms", []func(*Model){three, classes(map[string][]corev1.TopologySelectorTerm{"fast": append(in("a"), in("b")...)}), homes("fast")}, 7},
		{"a term without requirements matches nothing", []func(*Model){three, classes(map[string][]corev1.TopologySelectorTerm{"fast": append(in("a"), corev1.TopologySelectorTerm{})}), homes("fast")}, 4},
		{"that of the default class", []func(*Model){three, classes(map[string][]corev1.TopologySelectorTerm{"": in("c"), "fast": in("a")}), homes("")}, 2},
		{"none without a home", []func(*Model){three, fastIn("b")}, 9},
		{"set before the template", []func(*Model){fastIn("b"), homes("fast"), three}, 3},
		{"set after it", []func(*Model){three, homes("fast"), fastIn("b")}, 3},
		{"what is assigned lands where its home can be", []func(*Model){three, fastIn("b"), needsHome(""), homes("fast")}, 2},
		{"and so does its Pod", []func(*Model){three, fastIn("b"), needsHome("p"), homes("fast")}, 2},
		{"and not where there is more capacity", []func(*Model){three, fastIn("b"), needsHome("p")}, 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := capacityOf(t, scene(tc.changes...)); !got.Available || got.Slots != tc.slots {
				t.Errorf("available %v (%s), %d slots, want %d", got.Available, got.Message, got.Slots, tc.slots)
			}
		})
	}
	got := capacityOf(t, scene(three, fastIn("d"), homes("fast")))
	if got.Reason != v1alpha1.UnavailableNode || got.Message != `no matching node is in a topology of storage class "fast"` {
		t.Errorf("got %s: %s", got.Reason, got.Message)
	}
}

func TestWhatIsAssignedLandsWhereItsRuntimeClassSends(t *testing.T) {
	m := scene(nodes(machine("a", 8000, 64), with(machine("b", 4000, 64), func(n *Node) {
		n.Taints = []corev1.Taint{{Key: "sandbox", Effect: corev1.TaintEffectNoSchedule}}
	})))
	m.SetRuntimeClasses(map[string]RuntimeClass{"gvisor": {NodeSelector: map[string]string{"name": "b"},
		Tolerations: []corev1.Toleration{{Key: "sandbox", Operator: corev1.TolerationOpExists}}}})
	a := assigned("s", resources(3000, 2))
	a.RuntimeClass = "gvisor"
	m.SetAssignment(a)
	m.SetTemplates([]*requirements{desk(), deskWith(func(r *requirements) { r.Name, r.RuntimeClassName = "sandboxed", "gvisor" })})
	r := m.Report()
	if plain, sandboxed := r.Templates[0].Slots, r.Templates[1].Slots; plain != 8 || sandboxed != 1 {
		t.Errorf("%d slots on the plain node, want 8; %d on the other, want 1", plain, sandboxed)
	}
}

func TestTheDefaultStorageClassIsTheNewest(t *testing.T) {
	class := func(name string, age time.Duration, standard bool) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0).Add(-age))}}
		if standard {
			c.Annotations = map[string]string{defaultStorageClass: "true"}
		}
		c.AllowedTopologies = in(name)
		return c
	}
	for want, list := range map[string][]*storagev1.StorageClass{
		"":      {class("plain", 0, false)},
		"new":   {class("old", time.Hour, true), class("new", 0, true), class("plain", 0, false)},
		"first": {class("second", 0, true), class("first", 0, true)},
	} {
		got := storageClassesOf(list)
		zone := ""
		if terms := got.Topologies[""]; len(terms) > 0 {
			zone = terms[0].MatchLabelExpressions[0].Values[0]
		}
		if zone != want || got.Default != (want != "") || len(got.Names) != len(list) {
			t.Errorf("the default is %q, want %q: %+v", zone, want, got)
		}
	}
}
