package member

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// detectPauses detects when the hub does not run: a process that is frozen for longer than
// a member's heartbeats may be missing can't distinguish its own pause from lost members.
// It runs while this replica leads.
func (f *Registry) detectPauses(ctx context.Context) error {
	ticker := f.clock.NewTicker(f.timings.Renew / health.ChecksPerRenew)
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
			f.now()
			f.mu.Unlock()
		}
	}
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
