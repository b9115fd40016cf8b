package session

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// status with PodReady as passed, and the others true.
func status(pod metav1.ConditionStatus, reason string) api.SessionAssignmentStatus {
	s := api.SessionAssignmentStatus{State: api.AssignmentActive}
	for kind, c := range map[string]metav1.Condition{
		api.ConditionHomeReady:     {Status: metav1.ConditionTrue, Reason: api.ReasonNoHome},
		api.ConditionPodReady:      {Status: pod, Reason: reason},
		api.ConditionEndpointReady: {Status: metav1.ConditionTrue, Reason: api.ReasonEndpointReady},
	} {
		c.Type = kind
		c.LastTransitionTime = metav1.NewTime(noon)
		s.Conditions = append(s.Conditions, c)
	}
	return s
}

func TestHoldBack(t *testing.T) {
	var (
		none      = api.SessionAssignmentStatus{}
		ready     = status(metav1.ConditionTrue, api.ReasonPodReady)
		starting  = status(metav1.ConditionFalse, api.ReasonStarting)
		pending   = status(metav1.ConditionFalse, api.ReasonPodPending)
		pull      = status(metav1.ConditionFalse, api.ReasonImagePull)
		unfit     = status(metav1.ConditionFalse, api.ReasonUnschedulablePod)
		adding    = status(metav1.ConditionFalse, api.ReasonNodeProvisioning)
		failing   = status(metav1.ConditionFalse, api.ReasonScaleUpFailed)
		stopped   = status(metav1.ConditionFalse, api.ReasonPodTerminating)
		suspended = status(metav1.ConditionFalse, api.ReasonSuspended)
		stopping  = stopped
	)
	stopping.State = api.AssignmentStopping
	o := Options{}.withDefaults()
	ago := func(d time.Duration) time.Time { return noon.Add(-d) }
	fresh := statusMemory{differsSince: noon}
	old := statusMemory{differsSince: noon, writtenAt: ago(time.Hour)}

	cases := map[string]struct {
		mode       api.OperatingMode
		have, want api.SessionAssignmentStatus
		memory     statusMemory
		wait       time.Duration
	}{
		"first report of a start":  {"", none, pending, fresh, o.StatusDelay},
		"ready at once":            {"", none, ready, fresh, 0},
		"ready":                    {"", starting, ready, old, 0},
		"no longer ready":          {"", ready, stopped, old, 0},
		"a failure":                {"", starting, pull, old, 0},
		"the same failure":         {"", pull, pull, old, o.StatusDelay},
		"no node fits, may pass":   {"", pending, unfit, old, o.StatusDelay},
		"a node is added":          {"", unfit, adding, old, 0},
		"a node is added, at once": {"", pending, adding, old, o.StatusDelay / 5},
		"a node is added, later":   {"", none, adding, statusMemory{differsSince: ago(time.Hour), writtenAt: ago(time.Second)}, 0},
		"a node is still added":    {"", adding, adding, old, o.StatusDelay},
		"no node is added":         {"", adding, failing, old, 0},
		"progress, after a while":  {"", pending, starting, statusMemory{differsSince: ago(time.Second), writtenAt: ago(time.Hour)}, o.StatusDelay - time.Second},
		"progress, delayed":        {"", pending, starting, statusMemory{differsSince: ago(o.StatusDelay), writtenAt: ago(time.Hour)}, 0},
		"progress, just written":   {"", pending, starting, statusMemory{differsSince: ago(o.StatusDelay), writtenAt: ago(time.Second)}, o.StatusInterval - time.Second},
		"delayed, never written":   {"", none, pending, statusMemory{differsSince: ago(time.Hour)}, 0},
		"stops for a suspension":   {api.ModeSuspended, ready, stopped, old, o.StatusDelay},
		"suspended":                {api.ModeSuspended, ready, suspended, old, 0},
		"still suspended":          {api.ModeSuspended, suspended, suspended, old, o.StatusDelay},
		"stops for a withdrawal":   {"", ready, stopping, old, o.StatusDelay},
		"a failure while it stops": {"", stopping, stopping, old, o.StatusDelay},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := writeDelay(c.mode, c.have, c.want, c.memory, o, noon); got != c.wait {
				t.Errorf("held back for %s, want %s", got, c.wait)
			}
		})
	}
}
