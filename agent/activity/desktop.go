package activity

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// silentAfter is how many probes in a row must fail before a desktop counts as silent.
const silentAfter = 3

// Target is a desktop to be probed.
type Target struct {
	// Assignment of the desktop, and its UID: another of that name is another desktop.
	Assignment types.NamespacedName
	UID        types.UID
	// URL of the probe.
	URL string
	// Limit is its idle timeout, and zero without one.
	Limit time.Duration
	// Began is when its run began: it was not idle before.
	Began time.Time
}

// Result is what the probes of a desktop have found.
type Result struct {
	// Idle is how near it was to its idle timeout at the last probe. It is IdleUnknown
	// before the first answer and once the desktop is silent.
	Idle observe.Idleness
	// Use of it, which is not known until there is an answer.
	Use observe.Use
	// Silent is set once several probes in a row have failed.
	Silent bool
}

// desktop is a probed desktop.
type desktop struct {
	target Target
	result Result
	// unknowns is how many probes in a row have failed.
	unknowns int
	// due is when the next probe is.
	due time.Time
}

// retarget sets a target that may have changed, and drops the results of another Pod, of
// an earlier run or under another limit. It reports whether anything changed.
func (d *desktop) retarget(t Target, o Options) bool {
	if d.target == t {
		return false
	}
	*d = desktop{target: t}
	// No result matters earlier.
	d.due = t.Began.Add(nextProbe(0, t.Limit, o))
	return true
}

// answered records an answer, and reports whether it matters to the session.
func (d *desktop) answered(idle time.Duration, o Options, now time.Time) bool {
	idle = min(idle, max(now.Sub(d.target.Began), 0))
	before := d.result
	d.unknowns = 0
	d.result = Result{Idle: observe.IdlenessOf(idle, d.target.Limit), Use: observe.Use{Known: true}}
	if idle >= o.IdleAfter {
		d.result.Use.Since = sameUse(before.Use.Since, now.Add(-idle))
	}
	d.due = now.Add(nextProbe(idle, d.target.Limit, o))
	return d.result != before || d.result.Idle == observe.IdleOver
}

// failed records a failed probe, and reports whether it matters to the session.
func (d *desktop) failed(o Options, now time.Time) bool {
	before := d.result
	if d.due = now.Add(o.MaxInterval); d.unknowns < 30 {
		d.due = now.Add(min(o.MinInterval<<d.unknowns, o.MaxInterval))
		d.unknowns++
	}
	if d.unknowns >= silentAfter {
		d.result = Result{Silent: true, Use: observe.Use{Known: true}}
	}
	return d.result != before
}

// sameUse returns the time of a desktop's last use. Two answers about the same use never
// agree to the second.
func sameUse(before, now time.Time) time.Time {
	if now = now.Truncate(time.Second); now.Sub(before).Abs() <= sameUseWithin {
		return before
	}
	return now
}

// sameUseWithin is by how much two answers about the same use may differ.
const sameUseWithin = 5 * time.Second

// nextProbe returns the time until the next probe of a desktop. No result matters before
// the desktop is reported as idle or is near its timeout. While it is idle, its next use
// must be reported soon. Near its timeout it is probed a few times, and at the timeout.
func nextProbe(idle, limit time.Duration, o Options) time.Duration {
	wait := o.IdleAfter - idle
	if wait <= 0 {
		wait = o.IdleAfter / 5
	}
	warn := api.WarnBefore(limit)
	switch {
	case limit <= 0:
	case idle < limit-warn:
		wait = min(wait, limit-warn-idle)
	case idle < limit:
		wait = min(wait, limit-idle, warn/2)
	default:
		wait = min(wait, warn/2)
	}
	return max(wait, o.MinInterval)
}
