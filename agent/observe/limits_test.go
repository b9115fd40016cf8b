package observe_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestIdleness(t *testing.T) {
	const limit = 50 * time.Minute // its last five minutes are "soon"
	for idle, want := range map[time.Duration]observe.Idleness{
		0:                     observe.InUse,
		45*time.Minute - 1:    observe.InUse,
		45 * time.Minute:      observe.IdleSoon,
		limit - 1:             observe.IdleSoon,
		limit:                 observe.IdleOver,
		1000 * 24 * time.Hour: observe.IdleOver,
	} {
		if got := observe.IdlenessOf(idle, limit); got != want {
			t.Errorf("idle for %s: %d, want %d", idle, got, want)
		}
	}
	if got := observe.IdlenessOf(time.Hour, 0); got != observe.IdleUnknown {
		t.Errorf("without a limit: %d", got)
	}
}

func TestAnIdleTimeoutOfNoneIsNone(t *testing.T) {
	for _, d := range []api.Duration{"", "0s", "soon", "-5m"} {
		a := &api.SessionAssignment{Spec: api.SessionAssignmentSpec{IdleTimeout: d}}
		if _, limited := observe.LimitOf(a.Spec.IdleTimeout); limited {
			t.Errorf("%q is a limit", d)
		}
	}
}

func TestAnIdleFailureIsOfItsAttemptAndNamesTheRemedy(t *testing.T) {
	a := &api.SessionAssignment{Spec: api.SessionAssignmentSpec{Attempt: 3, IdleTimeout: "30m"}}
	f := observe.IdleFailure(a)
	if f.Attempt != 3 || f.Reason != api.ReasonIdleExpired || !strings.Contains(f.Message, "30m") || !strings.Contains(f.Message, "spec.attempt") {
		t.Errorf("the failure is %+v", f)
	}
}

func TestAWarningIsForADesktopThatRuns(t *testing.T) {
	a := &api.SessionAssignment{Spec: api.SessionAssignmentSpec{IdleTimeout: "30m"}}
	since := metav1.NewTime(time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC))
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse} {
		s := api.SessionAssignmentStatus{Conditions: []metav1.Condition{
			{Type: api.ConditionPodReady, Status: status, Reason: api.ReasonPodReady, LastTransitionTime: since},
		}}
		observe.WarnIdle(&s, a)
		c := meta.FindStatusCondition(s.Conditions, api.ConditionPodReady)
		if warned := c.Reason == api.ReasonIdleSoon; warned != (status == metav1.ConditionTrue) || c.Status != status || !c.LastTransitionTime.Equal(&since) {
			t.Errorf("%s became %+v", status, c)
		}
	}
}
