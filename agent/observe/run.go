package observe

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// clockStep is by how much the wall clock must have been set before a stored
// beginning is corrected. It is more than what rounding to seconds explains,
// and clocks that are merely slewed never differ from each other.
const clockStep = 2 * time.Second

// Instant is a moment on two clocks.
type Instant struct {
	// Wall is the time of the member's clock, which may be set.
	Wall time.Time
	// Process is the time since this process first saw the assignment. It only
	// grows, whatever happens to the wall clock.
	Process time.Duration
}

// Usage is how long a desktop has run. A run begins when the desktop is first
// ready, and ends when it is not to run any more: suspended, failed, out of time, or
// deleted. A Pod that is replaced, a node that is lost and an agent
// that is away do not end it.
//
// Within a process it goes by the process's clock. What is stored is enough
// for the next process to go on: up to a second is lost in that, and none is
// added, unless the wall clock was meanwhile set forward by less than
// clockStep: then by as much.
type Usage struct {
	// running is set during a run.
	running bool
	// from is when it began, by the process's clock: before zero, if an earlier
	// process saw it begin.
	from time.Duration
	// used by the runs before it.
	used time.Duration
}

// Recall returns the usage that an earlier process has stored.
func Recall(a *api.SessionAssignment, at Instant) Usage {
	var u Usage
	stored, ok := a.Status.TimeUsed.Value()
	if !ok && a.Status.RunningSince != nil {
		stored = usedBefore(a)
	}
	u.used = stored
	if since := a.Status.RunningSince; since != nil {
		u.running = true
		u.from = at.Process - max(at.Wall.Sub(since.Time), 0)
	}
	return u
}

// Running reports whether a run is on.
func (u Usage) Running() bool { return u.running }

// Run returns how long the current run has lasted, and zero without one.
func (u Usage) Run(at Instant) time.Duration {
	if !u.running {
		return 0
	}
	return max(at.Process-u.from, 0)
}

// Began returns the run's beginning by the process's clock.
func (u Usage) Began() time.Duration { return u.from }

// Elapsed returns the time that counts towards the timeout: of all runs, in this member and
// earlier ones. The hub's figure of earlier runs is taken between runs only: during one it
// may already include a part of it.
func (u Usage) Elapsed(a *api.SessionAssignment, at Instant) time.Duration {
	if u.running {
		return u.used + u.Run(at)
	}
	return max(u.used, usedBefore(a))
}

// Expired reports whether the timeout has passed. A desktop whose timeout is
// absent, zero or malformed has none.
func (u Usage) Expired(a *api.SessionAssignment, at Instant) bool {
	left, limited := u.Left(a, at)
	return limited && left <= 0
}

// Left returns how long the desktop may still run, and false if for ever.
func (u Usage) Left(a *api.SessionAssignment, at Instant) (time.Duration, bool) {
	limit, ok := LimitOf(a.Spec.Timeout)
	return limit - u.Elapsed(a, at), ok
}

// Begin returns the usage with a run that has already lasted for the given time. A current
// run goes on.
func (u Usage) Begin(a *api.SessionAssignment, lasted time.Duration, at Instant) Usage {
	if u.running {
		return u
	}
	return Usage{running: true, from: at.Process - max(lasted, 0), used: max(u.used, usedBefore(a))}
}

// End returns the usage after the run: its length counts in whole seconds. What
// ended because its time was over has used all of that, though it be no whole
// number of seconds.
func (u Usage) End(a *api.SessionAssignment, at Instant) Usage {
	if !u.running {
		return u
	}
	ended := Usage{used: u.used + u.Run(at).Truncate(time.Second)}
	if limit, _ := LimitOf(a.Spec.Timeout); u.Expired(a, at) {
		ended.used = max(ended.used, limit)
	}
	return ended
}

// Store puts the usage into a status. A beginning that is stored stays as it
// is, unless the wall clock was set since: it is what the next process will
// continue from.
func (u Usage) Store(s *api.SessionAssignmentStatus, at Instant) {
	if used, ok := s.TimeUsed.Value(); (ok || u.used > 0 || u.running) && (!ok || used != u.used) {
		s.TimeUsed = api.DurationOf(u.used)
	}
	if !u.running {
		s.RunningSince = nil
		return
	}
	// It is rounded up: a later beginning never adds to what was used.
	began := at.Wall.Add(time.Second - 1 - u.Run(at)).Truncate(time.Second)
	if s.RunningSince != nil && began.Sub(s.RunningSince.Time).Abs() <= clockStep {
		return
	}
	s.RunningSince = &metav1.Time{Time: began}
}

// usedBefore returns the hub's figure of what earlier runs have used.
func usedBefore(a *api.SessionAssignment) time.Duration {
	used, _ := a.Spec.TimeUsed.Value()
	return used
}

// LimitOf reads a time limit, and returns false if there is none.
func LimitOf(d api.Duration) (time.Duration, bool) {
	limit, ok := d.Value()
	return limit, ok && limit > 0
}
