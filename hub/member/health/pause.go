package health

import "time"

const (
	// ChecksPerRenew is the minimum number of calls of PauseDetector.Check between two
	// renewals.
	ChecksPerRenew = 2
	// missedChecks is the number of missed checks that shows that the hub did not run. It
	// takes less time than makes a member Suspect whose renewals the hub could not receive.
	missedChecks = 3
)

// PauseDetector detects that the hub's process did not run for a while: a process that is
// frozen for longer than heartbeats may be missing can't distinguish its pause from lost
// members. The zero value detects nothing until Start.
type PauseDetector struct{ last time.Time }

// Start begins to detect pauses.
func (p *PauseDetector) Start(now time.Time) { p.last = now }

// Check records that the hub runs. If it did not run for a while until now, Check returns
// the time of the previous call, and true.
func (p *PauseDetector) Check(t Timings, now time.Time) (since time.Time, paused bool) {
	if p.last.IsZero() {
		return time.Time{}, false
	}
	since, p.last = p.last, now
	return since, now.Sub(since) > missedChecks*t.Renew/ChecksPerRenew
}
