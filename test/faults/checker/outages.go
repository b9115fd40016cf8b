package checker

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// MinimumOutage is how long a member must be away before its sessions are rescheduled without
// waiting for their stop (docs/design.md, section 7). Zero is not checked.
type MinimumOutage struct {
	Restart, Fence time.Duration
	// Lease is how long until its agent ends the Pods of its Fence sessions. Zero is never.
	Lease time.Duration
}

// outages are the members that a scenario made unavailable, and what that allows.
type outages struct {
	// interrupted are the clusters whose watch is interrupted.
	interrupted map[string]bool
	// away are the members that a scenario made unavailable, and when; fenced those that an
	// operator declared fenced; removed those that never return.
	away            map[string]time.Time
	fenced, removed map[string]bool
	// twice are sessions that may run in two members at once: those of mode Restart that were
	// rescheduled while their member was away.
	twice   map[types.UID]bool
	minimum MinimumOutage
}

func newOutages() outages {
	return outages{
		interrupted: map[string]bool{}, away: map[string]time.Time{}, fenced: map[string]bool{}, removed: map[string]bool{},
		twice: map[types.UID]bool{},
	}
}

// RecordOutage records that a scenario makes a member unavailable.
func (o *outages) RecordOutage(now time.Time, member string) {
	if o.away[member].IsZero() {
		o.away[member] = now
	}
}

// leaseIsOver reports whether a member has been away for so long that its agent ends the Pods of its Fence
// sessions. An agent that is killed right after it did shows that in no status until it runs again.
func (o *outages) leaseIsOver(now time.Time, member string) bool {
	since, lease := o.away[member], o.minimum.Lease
	return !since.IsZero() && lease > 0 && now.Sub(since) >= lease
}

// EndOutages ends all outages: every member is back, and both sides agree.
func (o *outages) EndOutages() {
	clear(o.away)
	clear(o.fenced)
}

// DeclareFenced records that an operator declares a member fenced.
func (o *outages) DeclareFenced(member string) { o.fenced[member] = true }

// DeclareRemoved records that a member never returns.
func (o *outages) DeclareRemoved(member string) { o.removed[member] = true }

// MayRunTwice reports whether a session was rescheduled while its member was away, as its mode
// Restart allows.
func (o *outages) MayRunTwice(session types.UID) bool { return o.twice[session] }
