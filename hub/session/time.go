package session

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// The time of a session, by the hub's clock. A run of the desktop begins when it
// is first ready and ends when it is no longer to run; only runs count, and what
// they took together is status.timeUsed. The agent reckons for itself, by its own
// clock: where it comes to more, that holds.

// timeLimit is how long the desktop may run in all its runs; false: for ever.
func timeLimit(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (time.Duration, bool) {
	d, ok := effectiveTimeout(s, t).Value()
	return d, ok && d > 0
}

// timeUsed by the desktop until now, this run included.
func timeUsed(s *v1alpha1.VDISession, now time.Time) time.Duration {
	used, _ := s.Status.TimeUsed.Value()
	if since := s.Status.RunningSince; since != nil {
		used += max(0, now.Sub(since.Time))
	}
	return used
}

// startRun notes that the desktop has become ready; once a run.
func startRun(s *v1alpha1.VDISession, now time.Time) {
	if s.Status.RunningSince == nil {
		at := seconds(now)
		s.Status.RunningSince = &at
	}
}

// endRun adds the run to the time used, if one is on.
func endRun(s *v1alpha1.VDISession, now time.Time) {
	if s.Status.RunningSince == nil {
		return
	}
	// Up to the millisecond, so that what is used never shrinks.
	s.Status.TimeUsed = v1alpha1.DurationOf(timeUsed(s, now) + time.Millisecond - time.Nanosecond)
	s.Status.RunningSince = nil
}

// worthRaising is by how much the agent's word on the time used must exceed the
// hub's to be taken. The two never agree to the millisecond, and each change goes
// to the member once more.
const worthRaising = time.Second

// raiseUsed takes the agent's word on the time used, where it is more than the
// hub's and no run is on.
func raiseUsed(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment) {
	least := worthRaising
	if reported.TimeExpired() {
		least = 0 // that ends the session
	}
	used, _ := s.Status.TimeUsed.Value()
	if d, ok := reported.Status.TimeUsed.Value(); ok && d > used+least && s.Status.RunningSince == nil {
		s.Status.TimeUsed = v1alpha1.DurationOf(d)
	}
}

// expiry is when this run will have used up the session's time, to the second;
// false: none is on, or it has no limit.
func expiry(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (time.Time, bool) {
	limit, limited := timeLimit(s, t)
	since := s.Status.RunningSince
	if !limited || since == nil {
		return time.Time{}, false
	}
	used, _ := s.Status.TimeUsed.Value()
	return since.Add(limit - used + time.Second - time.Nanosecond).Truncate(time.Second), true
}

// timeOver is whether the session's time is used up.
func timeOver(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) bool {
	limit, limited := timeLimit(s, t)
	if !limited {
		return false
	}
	if end, running := expiry(s, t); running {
		return !now.Before(end)
	}
	return timeUsed(s, now) >= limit
}

// expiring is whether the session's user is to be warned of its end.
func expiring(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) bool {
	end, limited := expiry(s, t)
	return limited && now.Before(end) && !now.Before(warning(s, t, end))
}

// warning is when the user is warned of an end.
func warning(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, end time.Time) time.Time {
	limit, _ := timeLimit(s, t)
	return end.Add(-v1alpha1.WarnBefore(limit))
}

// nextDue is after how long the session's time makes it another; 0: never.
func nextDue(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) time.Duration {
	end, limited := expiry(s, t)
	if !limited {
		return 0
	}
	for _, due := range []time.Time{warning(s, t, end), end} {
		if due.After(now) {
			return due.Sub(now)
		}
	}
	return 0
}

// showExpiration sets when the session ends. One that is over keeps its end; of
// one that does not run there is none to tell.
func showExpiration(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) {
	end, running := expiry(s, t)
	switch {
	case running:
		at := metav1.NewTime(end)
		s.Status.ExpirationTime = &at
	case !timeOver(s, t, now):
		s.Status.ExpirationTime = nil
	}
}

// expiredMessage and expiringMessage name what would help.
func expiredMessage(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) string {
	if atMost(s, t) {
		return fmt.Sprintf("its time of %s is over, and template %s allows no more: delete it", effectiveTimeout(s, t), s.Spec.Template)
	}
	return fmt.Sprintf("its time of %s is over: raise spec.timeout to go on, or delete it", effectiveTimeout(s, t))
}

func expiringMessage(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) string {
	end, _ := expiry(s, t)
	remedy := ": raise spec.timeout to go on"
	if atMost(s, t) {
		remedy = fmt.Sprintf(", and template %s allows no more spec.timeout: save what you need", s.Spec.Template)
	}
	return fmt.Sprintf("its time of %s ends at %s%s", effectiveTimeout(s, t), end.UTC().Format(time.RFC3339), remedy)
}

// atMost is whether the template lets the session have no more time.
func atMost(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) bool {
	limit, _ := timeLimit(s, t)
	most, limited := t.Timeout.Max.Value()
	return limited && most > 0 && limit >= most && !t.Timeout.Unlimited
}
