package session

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/hub/member"
)

// leaveStage is how far a session is in leaving a member that is drained.
type leaveStage int

const (
	// leaveMoving: it was given up there and does not run elsewhere yet. It takes
	// one of the places of spec.drain.maxUnavailable.
	leaveMoving leaveStage = iota
	// leaveWaits: it may go, and waits for a place among those on the move.
	leaveWaits
	// leaveInUse: it waits until it is idle, or for the deadline.
	leaveInUse
	// leaveNoRoom: it fits nowhere else.
	leaveNoRoom
	// leaveHome: it stays, for its home is there.
	leaveHome
	// leaveFailed: it stays, for it was given up there.
	leaveFailed
)

// leaver is a session of a member that is drained.
type leaver struct {
	item  reconcile.Request
	stage leaveStage
	// used: its user loses what he does there. Those that nobody uses go first.
	used bool
	// epoch of the placement that it is to leave, or has left.
	epoch int64
}

// exodus is the sessions of one member that is drained. It says whose turn it is
// to leave. It does no I/O, and knows of no clock.
//
// Invariant: a session is only ever told to go while fewer than most are on the
// move, itself not counted. So if most is not lowered meanwhile, no more than
// that are on the move at any time.
type exodus struct {
	most     int
	sessions map[types.UID]leaver
}

func newExodus() *exodus { return &exodus{sessions: map[types.UID]leaver{}} }

// moving is how many sessions are on the move.
func (e *exodus) moving() int {
	n := 0
	for _, l := range e.sessions {
		if l.stage == leaveMoving {
			n++
		}
	}
	return n
}

// note what a session waits for, where it is placed still.
func (e *exodus) note(uid types.UID, l leaver) { e.sessions[uid] = l }

// moved notes a session that is on the move, whatever there is room for: an
// earlier leader has sent it.
func (e *exodus) moved(uid types.UID, l leaver) {
	l.stage = leaveMoving
	e.sessions[uid] = l
}

// leave is whether it is a session's turn to leave. If so it is on the move, and
// if not it waits. To ask again changes nothing.
func (e *exodus) leave(uid types.UID, l leaver) bool {
	if old, ok := e.sessions[uid]; ok && old.stage == leaveMoving && old.epoch == l.epoch {
		return true
	}
	delete(e.sessions, uid)
	l.stage = leaveWaits
	if e.moving() < e.most && !e.before(l) {
		l.stage = leaveMoving
	}
	e.sessions[uid] = l
	return l.stage == leaveMoving
}

// before is whether somebody else waits who goes before a session.
func (e *exodus) before(l leaver) bool {
	if !l.used {
		return false
	}
	for _, other := range e.sessions {
		if other.stage == leaveWaits && !other.used {
			return true
		}
	}
	return false
}

// drop a session that is gone from the member, or runs elsewhere.
func (e *exodus) drop(uid types.UID) { delete(e.sessions, uid) }

// next are the sessions whose turn it is now: as many as there are places, and in
// the order in which they go.
func (e *exodus) next() []reconcile.Request {
	free := e.most - e.moving()
	if free <= 0 {
		return nil
	}
	var waiting []leaver
	for _, l := range e.sessions {
		if l.stage == leaveWaits {
			waiting = append(waiting, l)
		}
	}
	slices.SortFunc(waiting, func(a, b leaver) int {
		return cmp.Or(rankOfUse(a.used)-rankOfUse(b.used), strings.Compare(a.item.String(), b.item.String()))
	})
	var out []reconcile.Request
	for _, l := range waiting[:min(free, len(waiting))] {
		out = append(out, l.item)
	}
	return out
}

func rankOfUse(used bool) int {
	if used {
		return 1
	}
	return 0
}

// counts are the numbers that the member's status shows.
func (e *exodus) counts() member.DrainCounts {
	var c member.DrainCounts
	for _, l := range e.sessions {
		switch l.stage {
		case leaveMoving:
			c.Moving++
		case leaveWaits:
			c.Waiting++
		case leaveInUse:
			c.InUse++
		case leaveNoRoom:
			c.NoRoom++
		case leaveHome:
			c.Homes++
		case leaveFailed:
			c.Failed++
		}
	}
	return c
}
