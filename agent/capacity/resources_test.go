package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestPodResources(t *testing.T) {
	requesting := func(cpu string) corev1.Container {
		return corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}
	}
	sidecar := func(cpu string) corev1.Container {
		c := requesting(cpu)
		c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		return c
	}
	for _, tc := range []struct {
		name string
		spec corev1.PodSpec
		cpu  int64
	}{
		{"nothing", corev1.PodSpec{Containers: []corev1.Container{{}}}, 0},
		{"the sum of the containers", corev1.PodSpec{Containers: []corev1.Container{requesting("1"), requesting("500m")}}, 1500},
		{"a greedy init container", corev1.PodSpec{InitContainers: []corev1.Container{requesting("3"), requesting("2")}, Containers: []corev1.Container{requesting("1")}}, 3000},
		{"a sidecar runs beside the containers", corev1.PodSpec{InitContainers: []corev1.Container{sidecar("1")}, Containers: []corev1.Container{requesting("1")}}, 2000},
		{"and beside the init containers after it", corev1.PodSpec{InitContainers: []corev1.Container{sidecar("1"), requesting("3")}, Containers: []corev1.Container{requesting("1")}}, 4000},
		{"but not beside those before it", corev1.PodSpec{InitContainers: []corev1.Container{requesting("3"), sidecar("1")}, Containers: []corev1.Container{requesting("1")}}, 3000},
		{"overhead", corev1.PodSpec{Containers: []corev1.Container{requesting("1")}, Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}}, 1250},
		{"requests of the whole Pod", corev1.PodSpec{Containers: []corev1.Container{requesting("1")},
			Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5")}}}, 5000},
	} {
		if got := PodResources(&tc.spec)[corev1.ResourceCPU]; got != tc.cpu {
			t.Errorf("%s: %dm, want %dm", tc.name, got, tc.cpu)
		}
	}
}

func TestTrimmingAPodKeepsWhatCounts(t *testing.T) {
	p := &corev1.Pod{}
	p.Name, p.Namespace, p.UID = "p", "demo", "u"
	p.Labels = map[string]string{"vdi.kasm.io/session-uid": "s", "app": "x"}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("1Gi"), gpu: resource.MustParse("2")}}}}
	p.ResourceVersion = "7"
	p.Spec.NodeSelector = map[string]string{"a": "b"}
	p.Status.Phase = corev1.PodRunning
	want := PodOf(p)
	expectKept(t, trim(PodOf), p, want)
}

func TestTrimmingANodeKeepsWhatCounts(t *testing.T) {
	n := &corev1.Node{}
	n.Name, n.Labels = "n", map[string]string{"a": "b"}
	n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Images = images("kiosk:1")
	want := NodeOf(n)
	if !want.Images.has(hashImage("kiosk:1")) {
		t.Error("its image is not among those that it has")
	}
	if !want.Open {
		t.Error("a Ready node is open")
	}
	expectKept(t, trim(NodeOf), n, want)
}

// expectKept trims an object twice, as an informer may, and requires its identity and the
// part that the model needs.
func expectKept[T any](t *testing.T, trim func(any) (any, error), in metav1.Object, want T) {
	t.Helper()
	once, err := trim(in)
	if err != nil {
		t.Fatal(err)
	}
	twice, err := trim(once)
	if err != nil || twice != once {
		t.Errorf("trimmed again it is another: %v, %v", twice, err)
	}
	got := once.(*trimmed[T])
	if diff := cmp.Diff(want, got.counts); diff != "" {
		t.Error(diff)
	}
	if got.Name != in.GetName() || got.Namespace != in.GetNamespace() || got.UID != in.GetUID() || got.ResourceVersion != in.GetResourceVersion() {
		t.Errorf("it is called %+v", got.ObjectMeta)
	}
}
