package fence

import "time"

// Instant is a moment on both clocks of a machine.
type Instant struct {
	// Boot is the time since the machine began: see SinceBoot.
	Boot time.Duration
	// Wall is what the wall's clock shows, which somebody may set.
	Wall time.Time
}

// Grant is a renewal that the hub has granted.
type Grant struct {
	// Sent is when the agent sent it.
	Sent Instant
	// Length of the lease, from then; zero: there is no grant.
	Length time.Duration
}

// end is when it is over, by the machine's clock.
func (g Grant) end() time.Duration { return g.Sent.Boot + g.Length }

// Record is what the member's API server keeps of the lease.
type Record struct {
	// Grant that was the newest when it was written, and the boot that its
	// instant is of.
	Grant
	BootID string
	// Lapse is the number of the last lapse; zero: there was none.
	Lapse int64
	// Marking: assignments may lack the mark of that lapse.
	Marking bool
}

// lease is what a process knows of it. It is not safe for concurrent use.
type lease struct {
	bootID string
	// grant is the newest that is not over; newer: than the record's.
	grant Grant
	newer bool
	// record is what was last read or written, and durableUntil when the grant
	// in it is over.
	record       Record
	durableUntil time.Duration
	// lapses that this process has seen, and how many of them have been dealt
	// with: numbered, or found to be nobody's.
	lapses, settled int
}

// write is a record that is to be made durable.
type write struct {
	Record
	// settles this many of the lapses.
	settles int
}

// recall is the lease as an earlier process has left it; nil: it left none. The
// clocks of two nodes, or of one before and after a boot, differ by at most the
// skew: by that much less is left.
func recall(left *Record, bootID string, now Instant, skew time.Duration) *lease {
	l := &lease{bootID: bootID, lapses: 1}
	if left == nil {
		return l
	}
	l.record = *left
	grant := left.Grant
	if left.BootID != bootID {
		away := now.Wall.Sub(left.Sent.Wall) + skew
		grant.Sent = Instant{Boot: now.Boot - away, Wall: now.Wall.Add(-away)}
	}
	if left.Length <= 0 || grant.Sent.Boot > now.Boot || grant.end() <= now.Boot {
		return l
	}
	l.grant, l.durableUntil, l.lapses = grant, grant.end(), 0
	return l
}

// look takes notice of the time: a lease that is over has lapsed.
func (l *lease) look(now Instant) {
	if l.grant.Length > 0 && now.Boot >= l.grant.end() {
		l.grant, l.newer = Grant{}, false
		l.lapses++
	}
}

// granted takes a renewal that the hub has granted by now.
func (l *lease) granted(g Grant, now Instant) {
	l.look(now)
	if g.Length <= 0 || g.Sent.Boot > now.Boot || g.end() <= max(now.Boot, l.grant.end()) {
		return
	}
	l.grant, l.newer = g, true
}

// lapsed reports whether there was a lapse that nobody has dealt with.
func (l *lease) lapsed() bool { return l.lapses > l.settled }

// left is for how long the lease still counts; zero: it does not.
func (l *lease) left(now Instant) time.Duration {
	l.look(now)
	if l.lapsed() || l.record.Marking || l.grant.Length == 0 {
		return 0
	}
	return l.grant.end() - now.Boot
}

// renewed reports whether there is a grant, whether or not it counts yet.
func (l *lease) renewed(now Instant) bool {
	l.look(now)
	return l.grant.Length > 0
}

// durable reports whether a new process would still find a lease.
func (l *lease) durable(now Instant) bool { return now.Boot < l.durableUntil }

// number is the record that gives the lapses by now their number, above all that
// assignments bear.
func (l *lease) number(highest int64) write {
	return write{
		Record:  Record{Grant: l.grant, BootID: l.bootID, Lapse: max(l.record.Lapse, highest) + 1, Marking: true},
		settles: l.lapses,
	}
}

// settle says that there was nobody whom the lapses by now concern.
func (l *lease) settle() { l.settled = l.lapses }

// marked is the record that says that all assignments bear the last lapse.
func (l *lease) marked() write {
	return write{Record: Record{Grant: l.grant, BootID: l.bootID, Lapse: l.record.Lapse}, settles: l.settled}
}

// refresh is the record that has the newest grant, where the one that is durable
// is older by a sixth of the lease.
func (l *lease) refresh(now Instant) (write, bool) {
	l.look(now)
	if !l.newer || l.lapsed() || l.grant.end()-l.durableUntil < l.grant.Length/6 {
		return write{}, false
	}
	return write{
		Record:  Record{Grant: l.grant, BootID: l.bootID, Lapse: l.record.Lapse, Marking: l.record.Marking},
		settles: l.settled,
	}, true
}

// stored says that a record is durable.
func (l *lease) stored(w write) {
	l.record, l.settled = w.Record, max(l.settled, w.settles)
	if w.Length > 0 {
		l.durableUntil = w.end()
	}
	l.newer = l.newer && l.grant != w.Grant
}
