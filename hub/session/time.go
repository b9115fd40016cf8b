package session

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// The time of a session. A run of the desktop begins when it is first ready and ends
// when it is no longer to run; only runs count, and what they took together is
// status.timeUsed.
//
// The agent keeps the time, by a clock that nobody can set, and ends a desktop whose
// time is over. The hub's wall clock may be set, and differs between replicas: it
// serves for what is shown, and for a member that is not heard of. What the hub
// charged by it when a run ended gives way to the agent's account of the same run.

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

// worthTaking is by how much the agent's account of the time used must differ from
// the hub's to be taken. The two never agree to the millisecond, and each change goes
// to the member once more.
const worthTaking = time.Second

// takeUsed takes the agent's account of the time used, where no run is on: what is
// more than the hub's, and what is less once the run that the hub charged is over by
// the agent's account too. stored reports whether the member holds the very
// assignment that is wanted.
func takeUsed(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment, stored bool) {
	used, _ := s.Status.TimeUsed.Value()
	d, ok := reported.Status.TimeUsed.Value()
	if !ok || s.Status.RunningSince != nil {
		return
	}
	least := worthTaking
	if reported.TimeExpired() {
		least = 0 // that ends the session
	}
	if d > used+least || d < used-worthTaking && stored && settled(s, reported) {
		s.Status.TimeUsed = v1alpha1.DurationOf(d)
	}
}

// settled reports whether a member's account of the time used is complete: the
// desktop is not to run, and the agent has ended its run.
func settled(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment) bool {
	return !toRun(s) && reported.Status.ObservedGeneration != 0 && reported.Status.RunningSince == nil
}

// endStopped ends the run of a session that its member has stopped. The agent's
// account holds, where the member has sent it: else the hub's clock.
func endStopped(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment, now time.Time) {
	used, _ := s.Status.TimeUsed.Value()
	d, ok := reported.Status.TimeUsed.Value()
	if s.Status.RunningSince == nil || !ok || reported.Status.RunningSince != nil {
		endRun(s, now)
		return
	}
	s.Status.TimeUsed, s.Status.RunningSince = v1alpha1.DurationOf(max(d, used)), nil
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

// timeOver reports whether the session's time is used up by runs that have ended. Of
// one that is on the agent says so.
func timeOver(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) bool {
	limit, limited := timeLimit(s, t)
	used, _ := s.Status.TimeUsed.Value()
	return limited && s.Status.RunningSince == nil && used >= limit
}

// overdue reports whether the time of a run that is on is over by the hub's clock.
func overdue(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) bool {
	end, running := expiry(s, t)
	return running && !now.Before(end)
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
func showExpiration(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) {
	end, running := expiry(s, t)
	switch {
	case running:
		at := metav1.NewTime(end)
		s.Status.ExpirationTime = &at
	case !timeOver(s, t):
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
