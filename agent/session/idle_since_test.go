package session

import (
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/agent/activity"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// idleSince checks since when the status shows that the desktop is idle; zero:
// it does not show that. The stage's time begins at noon.
func (s *stage) idleSince(what string, want time.Duration) {
	s.t.Helper()
	got := s.assignment().Status.IdleSince
	switch {
	case want == 0 && got != nil, want != 0 && (got == nil || !got.Time.Equal(noon.Add(want))):
		s.t.Errorf("%s: idle since %v, want %s after noon", what, got, want)
	}
}

func TestADesktopThatIsAnnotatedIsIdleAfterAWhile(t *testing.T) {
	s := newStage(t, limited("", ""))
	s.begin()
	s.after(10 * time.Minute)
	s.idleSince("one that never reports", 0)
	s.annotate("1")
	s.after(5*time.Minute - time.Second)
	s.idleSince("used a while ago", 0)
	s.wrote()
	s.after(time.Second)
	s.after(time.Minute)
	s.idleSince("not used for five minutes", 10*time.Minute)
	s.restart()
	s.pass()
	s.after(time.Hour)
	s.after(time.Minute)
	s.idleSince("under another process of the agent", 10*time.Minute)
	if got := s.wrote(); len(got) != 1 {
		t.Errorf("wrote %v", got)
	}
	s.annotate("2")
	s.after(time.Minute)
	s.idleSince("used again", 0)
	if got := s.wrote(); len(got) != 1 {
		t.Errorf("wrote %v", got)
	}
}

func TestADesktopThatIsProbedIsIdleWhenItReportsSo(t *testing.T) {
	s, prober := newProbed(t)
	s.order(func(spec *api.SessionAssignmentSpec) { spec.IdleTimeout = "" })
	for _, c := range []struct {
		result activity.Result
		want   time.Duration
	}{
		{activity.Result{}, 0},
		{activity.Result{Use: observe.Use{Known: true, Since: noon.Add(time.Minute)}}, time.Minute},
		{activity.Result{}, time.Minute},
		{activity.Result{Use: observe.Use{Known: true}}, 0},
		{activity.Result{Use: observe.Use{Known: true, Since: noon.Add(time.Hour)}}, time.Hour},
		{activity.Result{Use: observe.Use{Known: true}, Silent: true}, 0},
	} {
		prober.result = c.result
		s.after(time.Minute)
		s.after(time.Minute)
		s.idleSince("when it reports "+c.result.Use.Since.String(), c.want)
	}
	if got := s.eventCount(api.EventActivityUnknown); got != 0 {
		t.Error("warned of an idle timeout that it has not")
	}
	prober.result = activity.Result{Use: observe.Use{Known: true, Since: noon.Add(time.Hour)}}
	s.after(time.Minute)
	s.after(time.Minute)
	s.order(func(spec *api.SessionAssignmentSpec) { spec.RunState = api.ModeSuspended })
	s.after(time.Minute)
	s.idleSince("suspended", 0)
}
