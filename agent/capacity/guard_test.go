package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// An assignment without a Pod counts as much as its Pod, with a guard, behind a gate, or
// without either.
func TestAGuardedPodTakesWhatWasCounted(t *testing.T) {
	for _, of := range []corev1.ResourceList{
		nil,
		{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"), "nvidia.com/gpu": resource.MustParse("1")},
		{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
		{corev1.ResourceCPU: resource.MustParse("33m"), corev1.ResourceMemory: resource.MustParse("1000001")},
		{corev1.ResourceCPU: resource.MustParse("1m"), corev1.ResourceMemory: resource.MustParse("1")},
	} {
		a := &v1alpha1.SessionAssignment{Spec: v1alpha1.SessionAssignmentSpec{FailoverMode: v1alpha1.FailoverFence}}
		a.Spec.Desktop.Port, a.Spec.Desktop.Resources = 6080, of
		guard := render.Guard{Port: 8079, TimeFactor: 1}
		want := AssignmentOf(a).Resources
		for name, pod := range map[string]*corev1.Pod{"guarded": render.GuardedPod(a, guard), "gated": render.GatedPod(a, guard)} {
			got := PodResources(&pod.Spec)
			if d := cmp.Diff(want.ofPod(), got.ofPod()); d != "" {
				t.Errorf("%s, of %v (-counted +taken):\n%s", name, of, d)
			}
		}
	}
}
