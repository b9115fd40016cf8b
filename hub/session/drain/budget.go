package drain

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/member"
)

// Stage is how far a session is in leaving a member that is drained.
type Stage int

const (
	// Moving sessions have lost their placement, and do not run elsewhere yet. Each takes one
	// of spec.drain.maxUnavailable.
	Moving Stage = iota
	// Waiting sessions may go when it is their turn.
	Waiting
	// InUse sessions wait until they are idle, or for the deadline.
	InUse
	// NoCapacity is of sessions that no other member takes.
	NoCapacity
	// KeptByHome sessions stay, for their homes are there.
	KeptByHome
	// Failed sessions stay, for they have failed there.
	Failed
)

// Session of a member that is drained.
type Session struct {
	Key   types.NamespacedName
	Stage Stage
	// InUse: its user may lose something when the desktop is stopped. Idle sessions go first.
	InUse bool
	// Epoch of the placement that it is to leave, or has left.
	Epoch int64
}

// budget of the disruption of one member's draining.
//
// Invariant: a session is only moved while fewer than most are moving, itself not
// counted. If most is not lowered meanwhile, no more than that are moving at any time.
type budget struct {
	most     int
	sessions map[types.UID]Session
}

// moving returns how many sessions are moving.
func (b *budget) moving() int {
	n := 0
	for _, s := range b.sessions {
		if s.Stage == Moving {
			n++
		}
	}
	return n
}

// take reports whether it is a session's turn to leave. If so it is moving, and if not it
// waits. To ask again changes nothing.
func (b *budget) take(uid types.UID, s Session) bool {
	if old, ok := b.sessions[uid]; ok && old.Stage == Moving && old.Epoch == s.Epoch {
		return true
	}
	delete(b.sessions, uid)
	s.Stage = Waiting
	if b.moving() < b.most && !b.behind(s) {
		s.Stage = Moving
	}
	b.sessions[uid] = s
	return s.Stage == Moving
}

// behind reports whether an idle session waits that goes before a session in use.
func (b *budget) behind(s Session) bool {
	if !s.InUse {
		return false
	}
	for _, other := range b.sessions {
		if other.Stage == Waiting && !other.InUse {
			return true
		}
	}
	return false
}

// next returns the sessions whose turn it is now, in the order in which they go.
func (b *budget) next() []types.NamespacedName {
	free := b.most - b.moving()
	if free <= 0 {
		return nil
	}
	var idle, used []types.NamespacedName
	for _, s := range b.sessions {
		switch {
		case s.Stage != Waiting:
		case s.InUse:
			used = append(used, s.Key)
		default:
			idle = append(idle, s.Key)
		}
	}
	byName := func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	}
	slices.SortFunc(idle, byName)
	slices.SortFunc(used, byName)
	all := append(idle, used...)
	return all[:min(free, len(all))]
}

// counts returns the numbers that the member's status shows.
func (b *budget) counts() member.DrainCounts {
	var c member.DrainCounts
	by := map[Stage]*int32{
		Moving: &c.Moving, Waiting: &c.Waiting, InUse: &c.InUse, NoCapacity: &c.NoRoom, KeptByHome: &c.Homes, Failed: &c.Failed,
	}
	for _, s := range b.sessions {
		*by[s.Stage]++
	}
	return c
}
