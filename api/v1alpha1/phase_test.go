package v1alpha1_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	vdi "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func is(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason}
}

func TestPhaseOf(t *testing.T) {
	accepted := is(vdi.ConditionAccepted, metav1.ConditionTrue, vdi.ReasonAccepted)
	scheduled := is(vdi.ConditionScheduled, metav1.ConditionTrue, vdi.ReasonPlaced)
	ready := is(vdi.ConditionReady, metav1.ConditionTrue, vdi.ReasonReady)
	for _, tc := range []struct {
		name       string
		conditions []metav1.Condition
		deleting   bool
		mode       vdi.OperatingMode
		want       vdi.SessionPhase
	}{
		{name: "no conditions", want: vdi.PhasePending},
		{name: "accepted, not placed", want: vdi.PhasePending,
			conditions: []metav1.Condition{accepted}},
		{name: "no member fits", want: vdi.PhasePending,
			conditions: []metav1.Condition{accepted, is(vdi.ConditionScheduled, metav1.ConditionFalse, vdi.ReasonUnschedulable)}},
		{name: "not accepted", want: vdi.PhaseFailed,
			conditions: []metav1.Condition{is(vdi.ConditionAccepted, metav1.ConditionFalse, vdi.ReasonTemplateNotFound)}},
		{name: "not accepted, and suspended", want: vdi.PhaseFailed, mode: vdi.ModeSuspended,
			conditions: []metav1.Condition{is(vdi.ConditionAccepted, metav1.ConditionFalse, vdi.ReasonTemplateNotFound)}},
		{name: "placed", want: vdi.PhaseCreating,
			conditions: []metav1.Condition{accepted, scheduled}},
		{name: "placed, the desktop starts", want: vdi.PhaseCreating,
			conditions: []metav1.Condition{accepted, scheduled, is(vdi.ConditionReady, metav1.ConditionFalse, vdi.ReasonStarting)}},
		{name: "placed, the image cannot be pulled", want: vdi.PhaseCreating,
			conditions: []metav1.Condition{accepted, scheduled, is(vdi.ConditionReady, metav1.ConditionFalse, vdi.ReasonImagePull)}},
		{name: "ready", want: vdi.PhaseRunning,
			conditions: []metav1.Condition{accepted, scheduled, ready}},
		{name: "ready at the last heartbeat", want: vdi.PhaseRunning,
			conditions: []metav1.Condition{accepted, scheduled, is(vdi.ConditionReady, metav1.ConditionUnknown, vdi.ReasonMemberUnreachable)}},
		{name: "timed out", want: vdi.PhaseFailed,
			conditions: []metav1.Condition{accepted, scheduled, is(vdi.ConditionReady, metav1.ConditionFalse, vdi.ReasonTimeExpired)}},
		{name: "failed permanently", want: vdi.PhaseFailed,
			conditions: []metav1.Condition{accepted, scheduled, is(vdi.ConditionReady, metav1.ConditionFalse, vdi.ReasonImagePull),
				is(vdi.ConditionProgressing, metav1.ConditionFalse, vdi.ReasonImagePull)}},
		{name: "failed permanently, and suspended", want: vdi.PhasePending, mode: vdi.ModeSuspended,
			conditions: []metav1.Condition{accepted, scheduled, is(vdi.ConditionProgressing, metav1.ConditionFalse, vdi.ReasonIdleExpired)}},
		{name: "about to time out", want: vdi.PhaseRunning,
			conditions: []metav1.Condition{accepted, scheduled, is(vdi.ConditionReady, metav1.ConditionTrue, vdi.ReasonExpiringSoon)}},
		{name: "to be resumed without capacity", want: vdi.PhasePending,
			conditions: []metav1.Condition{accepted, is(vdi.ConditionScheduled, metav1.ConditionFalse, vdi.ReasonNoCapacityToResume)}},
		{name: "suspended while ready", want: vdi.PhasePending, mode: vdi.ModeSuspended,
			conditions: []metav1.Condition{accepted, scheduled, ready}},
		{name: "deleted while ready", want: vdi.PhaseTerminating, deleting: true,
			conditions: []metav1.Condition{accepted, scheduled, ready}},
		{name: "deleted while not accepted", want: vdi.PhaseTerminating, deleting: true,
			conditions: []metav1.Condition{is(vdi.ConditionAccepted, metav1.ConditionFalse, vdi.ReasonTemplateNotFound)}},
		{name: "ready in an earlier placement, and not placed now", want: vdi.PhasePending,
			conditions: []metav1.Condition{accepted, is(vdi.ConditionScheduled, metav1.ConditionFalse, vdi.ReasonReleasing), ready}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.mode == "" {
				tc.mode = vdi.ModeRunning
			}
			if got := vdi.PhaseOf(tc.conditions, tc.deleting, tc.mode); got != tc.want {
				t.Errorf("phase is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestSetConditionStampsTheGeneration(t *testing.T) {
	var conditions []metav1.Condition
	if !vdi.SetCondition(&conditions, 3, is(vdi.ConditionReady, metav1.ConditionTrue, vdi.ReasonReady)) {
		t.Error("a new condition is no change")
	}
	if got := conditions[0].ObservedGeneration; got != 3 {
		t.Errorf("observed generation %d, want 3", got)
	}
	if vdi.SetCondition(&conditions, 3, is(vdi.ConditionReady, metav1.ConditionTrue, vdi.ReasonReady)) {
		t.Error("the same condition again is a change")
	}
	if !vdi.SetCondition(&conditions, 4, is(vdi.ConditionReady, metav1.ConditionTrue, vdi.ReasonReady)) {
		t.Error("the same condition of another generation is no change")
	}
}
