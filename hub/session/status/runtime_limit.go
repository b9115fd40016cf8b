package status

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// EffectiveTimeout returns the session's time limit: its own, or else its template's default.
func EffectiveTimeout(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) v1alpha1.Duration {
	return t.Timeout.For(s.Spec.Timeout)
}

// timeLimit returns how long the desktop may run in all its runs together, and whether
// there is a limit.
func timeLimit(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (time.Duration, bool) {
	d, ok := EffectiveTimeout(s, t).Value()
	return d, ok && d > 0
}

// timeUsed returns the time used until now, the current run included.
func timeUsed(s *v1alpha1.VDISession, now time.Time) time.Duration {
	used, _ := s.Status.TimeUsed.Value()
	if since := s.Status.RunningSince; since != nil {
		used += max(0, now.Sub(since.Time))
	}
	return used
}

// StartRun records that the desktop has become ready, once per run.
func StartRun(s *v1alpha1.VDISession, now time.Time) {
	if s.Status.RunningSince == nil {
		at := Seconds(now)
		s.Status.RunningSince = &at
	}
}

// EndRun adds the current run, if there is one, to the time used.
func EndRun(s *v1alpha1.VDISession, now time.Time) {
	if s.Status.RunningSince == nil {
		return
	}
	// Rounded up to the millisecond, so that the time used never shrinks.
	s.Status.TimeUsed = v1alpha1.DurationOf(timeUsed(s, now) + time.Millisecond - time.Nanosecond)
	s.Status.RunningSince = nil
}

// minTimeUsedChange is by how much the agent's account must differ from the hub's to
// replace it. The two never agree to the millisecond, and each change is sent to the
// member again.
const minTimeUsedChange = time.Second

// adoptTimeUsed adopts the agent's account of the time used between runs: a higher one
// always, a lower one once the agent, too, has ended the run that the hub charged.
// stored is set if the member has stored the current assignment.
func adoptTimeUsed(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment, stored bool) {
	used, _ := s.Status.TimeUsed.Value()
	d, ok := reported.Status.TimeUsed.Value()
	if !ok || s.Status.RunningSince != nil {
		return
	}
	least := minTimeUsedChange
	if reported.TimeExpired() {
		least = 0 // that ends the session
	}
	if d > used+least || d < used-minTimeUsedChange && stored && runAccounted(s, reported) {
		s.Status.TimeUsed = v1alpha1.DurationOf(d)
	}
}

// runAccounted reports whether a member's account of the time used is complete: the
// desktop is not to run, and the agent has ended its run.
func runAccounted(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment) bool {
	return !ToRun(s) && reported.Status.ObservedGeneration != 0 && reported.Status.RunningSince == nil
}

// EndStoppedRun ends the run of a session that its member has stopped, by the agent's
// account if the member sent it, else by the hub's clock.
func EndStoppedRun(s *v1alpha1.VDISession, reported *v1alpha1.SessionAssignment, now time.Time) {
	used, _ := s.Status.TimeUsed.Value()
	d, ok := reported.Status.TimeUsed.Value()
	if s.Status.RunningSince == nil || !ok || reported.Status.RunningSince != nil {
		EndRun(s, now)
		return
	}
	s.Status.TimeUsed, s.Status.RunningSince = v1alpha1.DurationOf(max(d, used)), nil
}

// expiry returns when the current run will have used up the session's time, to the
// second, and whether it ever does.
func expiry(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (time.Time, bool) {
	limit, limited := timeLimit(s, t)
	since := s.Status.RunningSince
	if !limited || since == nil {
		return time.Time{}, false
	}
	used, _ := s.Status.TimeUsed.Value()
	return since.Add(limit - used + time.Second - time.Nanosecond).Truncate(time.Second), true
}

// TimeOver reports whether completed runs have used up the session's time. The agent
// reports it for the current run.
func TimeOver(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) bool {
	limit, limited := timeLimit(s, t)
	used, _ := s.Status.TimeUsed.Value()
	return limited && s.Status.RunningSince == nil && used >= limit
}

// overdue reports whether the time of the current run is over by the hub's clock.
func overdue(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) bool {
	end, running := expiry(s, t)
	return running && !now.Before(end)
}

// expiring reports whether the user is to be warned of the session's end.
func expiring(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) bool {
	end, limited := expiry(s, t)
	return limited && now.Before(end) && !now.Before(warningTime(s, t, end))
}

// warningTime returns when the user is warned of an end.
func warningTime(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, end time.Time) time.Time {
	limit, _ := timeLimit(s, t)
	return end.Add(-v1alpha1.WarnBefore(limit))
}

// NextDue returns the time until the session's expiry or its warning, or 0.
func NextDue(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, now time.Time) time.Duration {
	end, limited := expiry(s, t)
	if !limited {
		return 0
	}
	for _, due := range []time.Time{warningTime(s, t, end), end} {
		if due.After(now) {
			return due.Sub(now)
		}
	}
	return 0
}

// showExpiration sets when the session ends. An expired session keeps its end; one that
// does not run has none.
func showExpiration(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) {
	end, running := expiry(s, t)
	switch {
	case running:
		at := metav1.NewTime(end)
		s.Status.ExpirationTime = &at
	case !TimeOver(s, t):
		s.Status.ExpirationTime = nil
	}
}

// ExpiredMessage returns the message that the time is over, with the remedy.
func ExpiredMessage(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) string {
	if atTemplateMaximum(s, t) {
		return fmt.Sprintf("its time of %s is over, and template %s allows no more: delete it", EffectiveTimeout(s, t), s.Spec.Template)
	}
	return fmt.Sprintf("its time of %s is over: raise spec.timeout to continue, or delete it", EffectiveTimeout(s, t))
}

// expiringMessage returns the message that states when the time is over, with the remedy.
func expiringMessage(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) string {
	end, _ := expiry(s, t)
	remedy := ": raise spec.timeout to continue"
	if atTemplateMaximum(s, t) {
		remedy = fmt.Sprintf(", and template %s allows no more spec.timeout: save what you need", s.Spec.Template)
	}
	return fmt.Sprintf("its time of %s ends at %s%s", EffectiveTimeout(s, t), end.UTC().Format(time.RFC3339), remedy)
}

// atTemplateMaximum reports whether the template allows the session no more time.
func atTemplateMaximum(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) bool {
	limit, _ := timeLimit(s, t)
	most, limited := t.Timeout.Max.Value()
	return limited && most > 0 && limit >= most && !t.Timeout.Unlimited
}
