package observe

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// clockStep is the least step of the wall clock after which a stored beginning is corrected.
// It exceeds the effect of rounding to seconds.
const clockStep = 2 * time.Second

// Instant is a moment on two clocks.
type Instant struct {
	// Wall is the time of the member's clock, which may be set.
	Wall time.Time
	// Process is the monotonic time since this process first saw the assignment.
	Process time.Duration
}

// Usage is how long a desktop has run. A run begins when the desktop is first ready, and
// ends when it must stop: suspended, failed, out of time, or deleted. It goes on when a Pod
// is replaced, a node is lost or no agent runs.
//
// It is measured by the process's clock. The next process continues from the stored value:
// up to a second is lost, and none is added unless the wall clock was set forward by less
// than clockStep.
type Usage struct {
	// Running is set during a run.
	Running bool
	// Began is when it began, by the process's clock; negative if it began before this
	// process.
	Began time.Duration
	// used by the runs before it.
	used time.Duration
}

// Restore returns the usage that an earlier process has stored.
func Restore(a *api.SessionAssignment, at Instant) Usage {
	used, ok := a.Status.TimeUsed.Value()
	if !ok && a.Status.RunningSince != nil {
		used = usedBefore(a)
	}
	u := Usage{used: used}
	if since := a.Status.RunningSince; since != nil {
		u.Running = true
		u.Began = at.Process - max(at.Wall.Sub(since.Time), 0)
	}
	return u
}

// Run returns how long the current run has lasted, and zero without one.
func (u Usage) Run(at Instant) time.Duration {
	if !u.Running {
		return 0
	}
	return max(at.Process-u.Began, 0)
}

// Elapsed returns the time that counts toward the timeout: of all runs, in this member and
// earlier ones. It uses the hub's value only between runs: during a run that may already
// include a part of it.
func (u Usage) Elapsed(a *api.SessionAssignment, at Instant) time.Duration {
	if u.Running {
		return u.used + u.Run(at)
	}
	return max(u.used, usedBefore(a))
}

// Expired reports whether the timeout has passed. An absent, zero or malformed timeout is
// none.
func (u Usage) Expired(a *api.SessionAssignment, at Instant) bool {
	left, limited := u.Left(a, at)
	return limited && left <= 0
}

// Left returns how long the desktop may still run, and false if for ever.
func (u Usage) Left(a *api.SessionAssignment, at Instant) (time.Duration, bool) {
	limit, ok := LimitOf(a.Spec.Timeout)
	return limit - u.Elapsed(a, at), ok
}

// Begin returns the usage with a run that has already lasted for the given time, unless
// there is a current run.
func (u Usage) Begin(a *api.SessionAssignment, lasted time.Duration, at Instant) Usage {
	if u.Running {
		return u
	}
	return Usage{Running: true, Began: at.Process - max(lasted, 0), used: max(u.used, usedBefore(a))}
}

// End returns the usage after the run, whose length counts in whole seconds. An expired
// timeout is used completely, even if it is not a whole number of seconds.
func (u Usage) End(a *api.SessionAssignment, at Instant) Usage {
	if !u.Running {
		return u
	}
	ended := Usage{used: u.used + u.Run(at).Truncate(time.Second)}
	if limit, _ := LimitOf(a.Spec.Timeout); u.Expired(a, at) {
		ended.used = max(ended.used, limit)
	}
	return ended
}

// Store sets the usage in a status. It keeps a stored beginning, from which the next process
// continues, unless the wall clock was set since.
func (u Usage) Store(s *api.SessionAssignmentStatus, at Instant) {
	if used, ok := s.TimeUsed.Value(); (ok || u.used > 0 || u.Running) && (!ok || used != u.used) {
		s.TimeUsed = api.DurationOf(u.used)
	}
	if !u.Running {
		s.RunningSince = nil
		return
	}
	// Rounded up, so that it never adds to the time used.
	began := at.Wall.Add(time.Second - 1 - u.Run(at)).Truncate(time.Second)
	if s.RunningSince != nil && began.Sub(s.RunningSince.Time).Abs() <= clockStep {
		return
	}
	s.RunningSince = &metav1.Time{Time: began}
}

// usedBefore returns the time used by earlier runs, by the hub.
func usedBefore(a *api.SessionAssignment) time.Duration {
	used, _ := a.Spec.TimeUsed.Value()
	return used
}

// LimitOf reads a time limit, and returns false if there is none.
func LimitOf(d api.Duration) (time.Duration, bool) {
	limit, ok := d.Value()
	return limit, ok && limit > 0
}
