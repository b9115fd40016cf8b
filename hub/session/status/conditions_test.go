package status

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestShowsPending(t *testing.T) {
	for name, c := range map[string]struct {
		reason     string
		generation int64
		want       bool
	}{
		"no member fits it":         {v1alpha1.ReasonUnschedulable, 3, true},
		"no member fitted it once":  {v1alpha1.ReasonUnschedulable, 2, false},
		"it waits for a stop":       {v1alpha1.ReasonReleasing, 3, false},
		"the hub was just restored": {v1alpha1.ReasonHubRestored, 3, false},
	} {
		s := sessiontest.With(func(s *v1alpha1.VDISession) {
			s.Generation = 3
			s.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: c.reason, ObservedGeneration: c.generation,
			}}
		})
		if got := ShowsPending(s); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
	if ShowsPending(sessiontest.With()) {
		t.Error("a new session shows it")
	}
}
