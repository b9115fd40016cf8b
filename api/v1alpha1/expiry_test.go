package v1alpha1_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vdi "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestWarnBeforeIsAFifthAndAtMostFiveMinutes(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{
		10 * time.Second: 2 * time.Second,
		20 * time.Minute: 4 * time.Minute,
		25 * time.Minute: 5 * time.Minute,
		8 * time.Hour:    5 * time.Minute,
	} {
		if got := vdi.WarnBefore(limit); got != want {
			t.Errorf("before the end of %s: %s, want %s", limit, got, want)
		}
	}
}

func TestAnAssignmentIsIdleWhenNothingOfItIsToRun(t *testing.T) {
	running := vdi.SessionAssignment{Spec: vdi.SessionAssignmentSpec{RunState: vdi.ModeRunning, Attempt: 2}}
	for name, c := range map[string]struct {
		change func(*vdi.SessionAssignment)
		want   bool
	}{
		"it runs":                   {func(*vdi.SessionAssignment) {}, false},
		"suspended":                 {func(a *vdi.SessionAssignment) { a.Spec.RunState = vdi.ModeSuspended }, true},
		"failed":                    {func(a *vdi.SessionAssignment) { a.Status.Failure = &vdi.Failure{Attempt: 2} }, true},
		"an earlier attempt failed": {func(a *vdi.SessionAssignment) { a.Status.Failure = &vdi.Failure{Attempt: 1} }, false},
		"timed out":                 {withPod(vdi.ReasonTimeExpired), true},
		"its Pod is not ready yet":  {withPod(vdi.ReasonStarting), false},
	} {
		a := running.DeepCopy()
		c.change(a)
		if got := a.Idle(); got != c.want {
			t.Errorf("%s: idle is %t", name, got)
		}
	}
}

func withPod(reason string) func(*vdi.SessionAssignment) {
	return func(a *vdi.SessionAssignment) {
		a.Status.Conditions = []metav1.Condition{is(vdi.ConditionPodReady, metav1.ConditionFalse, reason)}
	}
}
