package session

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestSessionWaitsSinceItLostItsPlacement(t *testing.T) {
	s := sessiontest.With(func(s *v1alpha1.VDISession) {
		s.CreationTimestamp, s.Status = metav1.NewTime(sessiontest.Now), v1alpha1.SessionStatus{}
	})
	lost := metav1.NewTime(sessiontest.Now.Add(time.Hour))
	s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, LastTransitionTime: lost}}
	if got := waitsSince(s); !got.Equal(sessiontest.Now) {
		t.Errorf("one that was never placed waits since %s, want its creation", got)
	}
	s.Status.Epoch = 1
	if got := waitsSince(s); !got.Equal(lost.Time) {
		t.Errorf("one that was placed waits since %s, want %s", got, lost)
	}
}
