package fence

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/proto/boottime"
)

// Grant is a renewal that the hub has granted.
type Grant struct {
	// Sent is when the agent sent it.
	Sent boottime.Instant
	// Length of the lease from then; zero without a grant.
	Length time.Duration
}

// end returns when the lease ends, by the boot clock.
func (g Grant) end() time.Duration { return g.Sent.Boot + g.Length }

// left returns how long the lease still lasts, and at most zero if it is over.
func (g Grant) left(now boottime.Instant, skew time.Duration) time.Duration {
	return g.Length - now.Since(g.Sent, skew)
}

// Record is the lease as stored in the member's API server.
type Record struct {
	// Grant is the newest one at the time, and BootID the boot of its instant.
	Grant
	BootID string
	// Lapse is the number of the last lapse; zero without one.
	Lapse int64
	// Marking is set while assignments may lack the mark of that lapse.
	Marking bool
}

// lease is the state of the lease in a process. It is not safe for concurrent use.
type lease struct {
	bootID string
	// grant is the newest one, unless it is over.
	grant Grant
	// skew is the most by which the wall clock may be wrong.
	skew time.Duration
	// record was last read or written, and durable is the newest stored grant.
	record  Record
	durable Grant
	// lapses counts those of this process, and handled those of them that were numbered, or
	// affect no session.
	lapses, handled int
}

// pendingRecord is a record to be stored.
type pendingRecord struct {
	Record
	// handled is the number of lapses that are handled once it is stored.
	handled int
}

// restore returns the lease from the record of an earlier process, which may be nil. After a
// reboot or on another node the remaining time is reduced by the skew.
func restore(stored *Record, bootID string, now boottime.Instant, skew time.Duration) *lease {
	l := &lease{bootID: bootID, lapses: 1, skew: skew}
	if stored == nil {
		return l
	}
	l.record = *stored
	grant := stored.Grant
	if stored.BootID != bootID {
		elapsed := now.Wall.Sub(stored.Sent.Wall) + skew
		grant.Sent = boottime.Instant{Boot: now.Boot - elapsed, Wall: now.Wall.Add(-elapsed)}
	}
	if stored.Length <= 0 || grant.Sent.Boot > now.Boot || grant.left(now, skew) <= 0 {
		return l
	}
	l.grant, l.durable, l.lapses = grant, grant, 0
	return l
}

// advance sets the time, and counts a lapse if the lease is over.
func (l *lease) advance(now boottime.Instant) {
	if l.grant.Length > 0 && l.grant.left(now, l.skew) <= 0 {
		l.grant = Grant{}
		l.lapses++
	}
}

// granted records a renewal that the hub has granted, if it extends the lease.
func (l *lease) granted(g Grant, now boottime.Instant) {
	l.advance(now)
	if g.Length <= 0 || g.Sent.Boot > now.Boot || g.left(now, l.skew) <= 0 || g.end() <= l.grant.end() {
		return
	}
	l.grant = g
}

// lapsed reports whether there was a lapse that is not handled.
func (l *lease) lapsed() bool { return l.lapses > l.handled }

// left returns how long the lease is still valid, and zero if it is not.
func (l *lease) left(now boottime.Instant) time.Duration {
	l.advance(now)
	if l.lapsed() || l.record.Marking || l.grant.Length == 0 {
		return 0
	}
	return l.grant.left(now, l.skew)
}

// renewed reports whether there is a grant, valid yet or not.
func (l *lease) renewed(now boottime.Instant) bool {
	l.advance(now)
	return l.grant.Length > 0
}

// isDurable reports whether a new process would restore a valid lease.
func (l *lease) isDurable(now boottime.Instant) bool { return l.durable.left(now, l.skew) > 0 }

// number returns the record that numbers the lapses so far, above all marks of
// assignments.
func (l *lease) number(highest int64) pendingRecord {
	return l.pending(max(l.record.Lapse, highest)+1, true, l.lapses)
}

// marked returns the record after all assignments have the mark of the last lapse.
func (l *lease) marked() pendingRecord {
	return l.pending(l.record.Lapse, false, l.handled)
}

// refresh returns the record with the newest grant, if the durable one is older by a sixth
// of the lease.
func (l *lease) refresh(now boottime.Instant) (pendingRecord, bool) {
	l.advance(now)
	if l.grant.Length == 0 || l.lapsed() || l.grant.end()-l.durable.end() < l.grant.Length/6 {
		return pendingRecord{}, false
	}
	return l.pending(l.record.Lapse, l.record.Marking, l.handled), true
}

// pending returns the record of the newest grant.
func (l *lease) pending(lapse int64, marking bool, handled int) pendingRecord {
	return pendingRecord{Record{Grant: l.grant, BootID: l.bootID, Lapse: lapse, Marking: marking}, handled}
}

// stored records that a record is durable.
func (l *lease) stored(r pendingRecord) {
	l.record, l.handled = r.Record, max(l.handled, r.handled)
	if r.Length > 0 {
		l.durable = r.Grant
	}
}
