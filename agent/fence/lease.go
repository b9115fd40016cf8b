package fence

import "time"

// Instant is a moment on both clocks of a machine.
type Instant struct {
	// Boot is the time since the machine began: see boottime.Now.
	Boot time.Duration
	// Wall is the time of the wall clock, which may be set.
	Wall time.Time
}

// Grant is a renewal that the hub has granted.
type Grant struct {
	// Sent is when the agent sent it.
	Sent Instant
	// Length of the lease, from then, and zero without a grant.
	Length time.Duration
}

// end returns when it is over, by the boot clock alone.
func (g Grant) end() time.Duration { return g.Sent.Boot + g.Length }

// left returns how long it still lasts, and at most zero if it is over. A machine that its
// hypervisor pauses stops its boot clock too, and only the wall clock shows the pause: the
// time that has passed is that of the clock that shows more, the wall clock's less the
// skew.
func (g Grant) left(now Instant, skew time.Duration) time.Duration {
	return g.Length - max(now.Boot-g.Sent.Boot, now.Wall.Sub(g.Sent.Wall)-skew)
}

// Record is the lease as stored in the member's API server.
type Record struct {
	// Grant is the newest when it was written, and BootID the boot of its instant.
	Grant
	BootID string
	// Lapse is the number of the last lapse, and zero without one.
	Lapse int64
	// Marking is set while assignments may lack the mark of that lapse.
	Marking bool
}

// lease is the state of a process. It is not safe for concurrent use.
type lease struct {
	bootID string
	// grant is the newest that is not over, and newer is set if the record's is older.
	grant Grant
	newer bool
	// skew is by how much the wall clock may be wrong.
	skew time.Duration
	// record was last read or written, and durable is the newest grant that is stored.
	record  Record
	durable Grant
	// lapses is how many this process has seen, and handled how many of them were
	// numbered, or concern no session.
	lapses, handled int
}

// write is a record to be made durable.
type write struct {
	Record
	// handles this many of the lapses.
	handles int
}

// restore returns the lease from the record of an earlier process, which may be nil. The
// clocks of two nodes, or of one before and after a boot, differ by at most the skew: so
// much less is left.
func restore(left *Record, bootID string, now Instant, skew time.Duration) *lease {
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

// advance sets the time: a lease that is over has lapsed.
func (l *lease) advance(now Instant) {
	if l.grant.Length > 0 && l.grant.left(now, l.skew) <= 0 {
		l.grant, l.newer = Grant{}, false
		l.lapses++
	}
}

// granted takes a renewal that the hub has granted by now.
func (l *lease) granted(g Grant, now Instant) {
	l.advance(now)
	if g.Length <= 0 || g.Sent.Boot > now.Boot || g.left(now, l.skew) <= 0 || g.end() <= l.grant.end() {
		return
	}
	l.grant, l.newer = g, true
}

// lapsed reports whether there was a lapse that is not handled.
func (l *lease) lapsed() bool { return l.lapses > l.handled }

// left returns for how long the lease is still valid, and zero if it is not.
func (l *lease) left(now Instant) time.Duration {
	l.advance(now)
	if l.lapsed() || l.record.Marking || l.grant.Length == 0 {
		return 0
	}
	return l.grant.left(now, l.skew)
}

// renewed reports whether there is a grant, valid yet or not.
func (l *lease) renewed(now Instant) bool {
	l.advance(now)
	return l.grant.Length > 0
}

// isDurable reports whether a new process would find a valid lease.
func (l *lease) isDurable(now Instant) bool { return l.durable.left(now, l.skew) > 0 }

// number returns the record that numbers the lapses so far, above all marks of
// assignments.
func (l *lease) number(highest int64) write {
	return write{
		Record:  Record{Grant: l.grant, BootID: l.bootID, Lapse: max(l.record.Lapse, highest) + 1, Marking: true},
		handles: l.lapses,
	}
}

// marked returns the record after all assignments have the mark of the last lapse.
func (l *lease) marked() write {
	return write{Record: Record{Grant: l.grant, BootID: l.bootID, Lapse: l.record.Lapse}, handles: l.handled}
}

// refresh returns the record with the newest grant, if the durable one is older by a sixth
// of the lease.
func (l *lease) refresh(now Instant) (write, bool) {
	l.advance(now)
	if !l.newer || l.lapsed() || l.grant.end()-l.durable.end() < l.grant.Length/6 {
		return write{}, false
	}
	return write{
		Record:  Record{Grant: l.grant, BootID: l.bootID, Lapse: l.record.Lapse, Marking: l.record.Marking},
		handles: l.handled,
	}, true
}

// stored takes a record that is durable.
func (l *lease) stored(w write) {
	l.record, l.handled = w.Record, max(l.handled, w.handles)
	if w.Length > 0 {
		l.durable = w.Grant
	}
	l.newer = l.newer && l.grant != w.Grant
}
