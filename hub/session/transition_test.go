package session

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

func TestTheRootOfATraceIsWrittenOnce(t *testing.T) {
	at := metav1.Now()
	session := func(run int64, idle, ran bool, phase v1alpha1.SessionPhase) *v1alpha1.VDISession {
		s := &v1alpha1.VDISession{}
		s.Status.Phase = phase
		if run > 0 {
			s.Status.Placement = &v1alpha1.Placement{Epoch: 1, Run: run, Idle: idle}
		}
		if ran {
			s.Status.RunningSince = &at
		}
		return s
	}
	for name, c := range map[string]struct {
		steps []*v1alpha1.VDISession
		want  string
	}{
		"runs, is suspended, deleted": {[]*v1alpha1.VDISession{
			session(1, false, false, "Creating"), session(1, false, false, "Creating"), session(1, false, true, "Running"), session(1, false, true, "Running"),
			session(1, true, false, "Pending"), session(1, true, false, "Terminating"), session(0, false, false, "Terminating"),
		}, "ran"},
		"never runs": {[]*v1alpha1.VDISession{
			session(1, false, false, "Creating"), session(1, true, false, "Failed"), session(1, true, false, "Terminating"),
		}, "missed"},
		"runs in its second run alone": {[]*v1alpha1.VDISession{
			session(1, false, false, "Creating"), session(2, false, false, "Creating"), session(2, false, true, "Running"), session(2, false, true, "Terminating"),
		}, "missed ran"},
		"deleted before it ran": {[]*v1alpha1.VDISession{
			session(1, false, false, "Creating"), session(1, false, false, "Terminating"), session(0, false, false, "Terminating"),
		}, "missed"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for i := 1; i < len(c.steps); i++ {
				if status.RunStarts(c.steps[i-1], c.steps[i]) {
					got = append(got, "ran")
				}
				if status.RunMissed(c.steps[i-1], c.steps[i]) {
					got = append(got, "missed")
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}
