package drain

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Stage is the progress of a session's eviction from a drained member.
type Stage int

const (
	// Moving sessions have lost their placement, and do not run elsewhere yet. Each
	// counts for spec.drain.maxUnavailable.
	Moving Stage = iota
	// Waiting sessions may move when the budget allows it.
	Waiting
	// InUse sessions wait until they are idle, or for the deadline.
	InUse
	// NoCapacity sessions fit in no other member.
	NoCapacity
	// KeptByHome sessions are not moved, since their homes are there.
	KeptByHome
	// Failed sessions are not moved, since they have failed there.
	Failed
)

// Session is a session of a drained member.
type Session struct {
	Key   types.NamespacedName
	Stage Stage
	// InUse is set if its user may lose work when the desktop is stopped. Idle sessions
	// are moved first.
	InUse bool
	// Epoch of its placement there, released or not.
	Epoch int64
}

// budget is the drain budget of one member.
//
// Invariant: a session is only moved while fewer than limit are moving, itself not
// counted. If limit is not lowered meanwhile, no more than that are moving at any time.
type budget struct {
	limit    int
	sessions map[types.UID]Session
}

// moving returns how many sessions are moving.
func (b *budget) moving() int { return int(b.counts().Moving) }

// evict reports whether a session may move now. If so it is moving, and if not it waits.
// It is idempotent.
func (b *budget) evict(uid types.UID, s Session) bool {
	if old, ok := b.sessions[uid]; ok && old.Stage == Moving && old.Epoch == s.Epoch {
		return true
	}
	delete(b.sessions, uid)
	s.Stage = Waiting
	if b.moving() < b.limit && !b.behind(s) {
		s.Stage = Moving
	}
	b.sessions[uid] = s
	return s.Stage == Moving
}

// behind reports whether a waiting idle session is moved before this session in use.
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

// next returns the sessions that may move now, in order.
func (b *budget) next() []types.NamespacedName {
	free := b.limit - b.moving()
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
func (b *budget) counts() v1alpha1.DrainStatus {
	var c v1alpha1.DrainStatus
	by := map[Stage]*int32{
		Moving: &c.Moving, Waiting: &c.Waiting, InUse: &c.InUse, NoCapacity: &c.NoCapacity, KeptByHome: &c.Homes, Failed: &c.Failed,
	}
	for _, s := range b.sessions {
		*by[s.Stage]++
	}
	return c
}
