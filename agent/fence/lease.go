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

// end is when it is over, by the boot clock alone.
func (g Grant) end() time.Duration { return g.Sent.Boot + g.Length }

// left returns how long it still lasts; not positive: it is over. A machine that its
// hypervisor pauses stops its boot clock too, and learns from the wall's clock that it
// was away: as much time has passed as the clock says that shows more, the wall's less
// what it may be off by.
func (g Grant) left(now Instant, skew time.Duration) time.Duration {
	return g.Length - max(now.Boot-g.Sent.Boot, now.Wall.Sub(g.Sent.Wall)-skew)
}

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
	// skew is by how much the wall's clock may be off.
	skew time.Duration
	// record is what was last read or written, and durable the newest grant that is
	// stored.
	record  Record
	durable Grant
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
	l := &lease{bootID: bootID, lapses: 1, skew: skew}
	if left == nil {
		return l
	}
	l.record = *left
	grant := left.Grant
	if left.BootID != bootID {
		away := now.Wall.Sub(left.Sent.Wall) + skew
		grant.Sent = Instant{Boot: now.Boot - away, Wall: now.Wall.Add(-away)}
	}
	if left.Length <= 0 || grant.Sent.Boot > now.Boot || grant.left(now, skew) <= 0 {
		return l
	}
	l.grant, l.durable, l.lapses = grant, grant, 0
	return l
}

// look takes notice of the time: a lease that is over has lapsed.
func (l *lease) look(now Instant) {
	if l.grant.Length > 0 && l.grant.left(now, l.skew) <= 0 {
		l.grant, l.newer = Grant{}, false
		l.lapses++
	}
}

// granted takes a renewal that the hub has granted by now.
func (l *lease) granted(g Grant, now Instant) {
	l.look(now)
	if g.Length <= 0 || g.Sent.Boot > now.Boot || g.left(now, l.skew) <= 0 || g.end() <= l.grant.end() {
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
	return l.grant.left(now, l.skew)
}

// renewed reports whether there is a grant, whether or not it counts yet.
func (l *lease) renewed(now Instant) bool {
	l.look(now)
	return l.grant.Length > 0
}

// survives reports whether a new process would still find a lease.
func (l *lease) survives(now Instant) bool { return l.durable.left(now, l.skew) > 0 }

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
	if !l.newer || l.lapsed() || l.grant.end()-l.durable.end() < l.grant.Length/6 {
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
		l.durable = w.Grant
	}
	l.newer = l.newer && l.grant != w.Grant
}
