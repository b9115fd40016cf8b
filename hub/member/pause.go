package member

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// checksPerRenew is how often the health of members is checked between two renewals: every 250 ms.
const checksPerRenew = 20

// watchHealth notifies the listeners of members that are no longer Ready by time alone. It also
// detects when the hub does not run: a process that is frozen for longer than a member's
// heartbeats may be missing can't distinguish its own pause from lost members. It runs while this
// replica leads.
func (f *Registry) watchHealth(ctx context.Context) error {
	ticker := f.clock.NewTicker(f.timings.Renew / checksPerRenew)
	defer ticker.Stop()
	f.mu.Lock()
	f.pauses.Start(f.clock.Now())
	f.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			f.mu.Lock()
			changes := f.healthChanges(f.now())
			f.mu.Unlock()
			f.notify(changes...)
		}
	}
}

// healthChanges returns the notifications for members that listeners know as Ready and that are
// not any more. One check of all members replaces one for each whenever its heartbeats might end.
// The caller holds the lock.
func (f *state) healthChanges(now time.Time) []Change {
	var changes []Change
	for _, m := range f.ordered {
		if m.shown == health.Ready && m.assess(f.timings, now).State != health.Ready {
			changes = append(changes, m.change(MemberChanged))
		}
	}
	return changes
}

// now returns the time for the health of members. The first call after the hub did not run
// records that for every member, before any health is computed. The caller holds the lock.
func (f *state) now() time.Time {
	now := f.clock.Now()
	from, paused := f.pauses.Check(f.timings, now)
	if !paused {
		return now
	}
	pause := now.Sub(from)
	for _, m := range f.members {
		m.heartbeats.Paused(f.timings, from, now)
	}
	if f.ledSince = f.ledSince.Add(pause); pause >= f.timings.Unreachable {
		f.ledSince = now // the new leadership begins after the pause
	}
	if !f.recovery.until.IsZero() {
		f.recovery.until = f.recovery.until.Add(pause)
	}
	log.Log.WithName("fleet").Info("The hub did not run for a while: missed heartbeats do not count against members", "pause", pause.String())
	return now
}
