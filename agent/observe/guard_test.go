package observe

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// A desktop that has a guard has no startup probe, and counts as started as
// soon as it runs.
func TestADesktopBesideAGuardStarts(t *testing.T) {
	ran := metav1.NewTime(noon.Truncate(time.Second))
	for name, tc := range map[string]struct {
		since metav1.Time
		want  string
	}{
		"until it has answered":       {metav1.NewTime(ran.Add(-time.Minute)), api.ReasonStarting},
		"within the second":           {ran, api.ReasonStarting},
		"and not once it has stopped": {metav1.NewTime(ran.Add(time.Minute)), api.ReasonPodNotReady},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(with(corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: tc.since}))
			p.Spec.InitContainers = []corev1.Container{{Name: render.GuardContainer}}
			p.Status.Phase = corev1.PodRunning
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "desktop", Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: ran}},
			}}
			if c := Pod(assignment(), Children{Pod: p}); c.Reason != tc.want {
				t.Errorf("PodReady is %+v, want %s", c, tc.want)
			}
			p.Spec.InitContainers = nil
			if c := Pod(assignment(), Children{Pod: p}); c.Reason != api.ReasonPodNotReady {
				t.Errorf("without a guard it is %+v", c)
			}
		})
	}
}
