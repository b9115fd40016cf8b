package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// GateContainer is the name of the init container that makes a desktop of mode Hold wait for
// the hub's affirmation: see agent/guard.
const GateContainer = "vdi-gate"

// Gate returns the gate of a Pod, or nil.
func Gate(pod *corev1.Pod) *corev1.Container {
	i := slices.IndexFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == GateContainer })
	if i < 0 {
		return nil
	}
	return &pod.Spec.InitContainers[i]
}

// GatedPod returns the desktop behind a gate. The gate runs once in each sandbox: again after
// a power cut, and not when only the desktop restarts. The Pod requests as much as the
// desktop alone.
func GatedPod(a *api.SessionAssignment, g Guard) *corev1.Pod {
	pod := Pod(a)
	pod.Spec.InitContainers = []corev1.Container{g.container(a, GateContainer, gateResources(a), "gate")}
	return pod
}

// gateResources returns the desktop's resources, which the two never use at the same time: a
// namespace's quota or limits admit them as they admit the desktop.
func gateResources(a *api.SessionAssignment) corev1.ResourceRequirements {
	own := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if have, ok := a.Spec.Desktop.Resources[name]; ok {
			own[name] = have.DeepCopy()
		}
	}
	return corev1.ResourceRequirements{Requests: own.DeepCopy(), Limits: own}
}
