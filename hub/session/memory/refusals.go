package memory

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
)

const (
	// refusalLasts is how long a session is not placed in a member that refused it,
	// unless the member reports capacity before.
	refusalLasts = 25 * time.Second
	// adminRefusalLasts is the same if the member's settings do not allow the session,
	// which only the member's administrator changes.
	adminRefusalLasts = 5 * time.Minute
	// RefusalStreak is how many members may refuse a session one after the other
	// before it pauses.
	RefusalStreak = 3
	// RefusalPause is the first pause; each refusal after it doubles it, up to
	// refusalPauseMost.
	RefusalPause     = time.Second
	refusalPauseMost = 30 * time.Second
	// streakLasts is how long a streak is kept.
	streakLasts = adminRefusalLasts
)

// refused are the refusals of a session.
type refused struct {
	members map[types.UID]refusal
	// streak is the number of refusals since a member last stored its assignment; until
	// is the end of its pause.
	streak int
	// epoch that was refused last.
	epoch int64
	last  time.Time
	until time.Time
}

type refusal struct {
	reason, why string
	at          time.Time
	// free is set if the member lacked a free slot, and was not ordered to add a node.
	free bool
}

// left returns how long the refusal still counts; negative if it does not.
func (x refusal) left(now time.Time) time.Duration {
	lasts := refusalLasts
	if x.reason == v1alpha1.RefusedNotAllowed {
		lasts = adminRefusalLasts
	}
	return lasts - now.Sub(x.at)
}

// add records that a member refused the session's epoch. After RefusalStreak refusals
// in a row the session pauses. An epoch that is recorded again counts once. mayAddNode reports
// whether the order permitted the member to add a node.
func (f *refused) add(member types.UID, epoch int64, reason, message string, mayAddNode bool, now time.Time) {
	if now.Sub(f.last) > streakLasts {
		*f = refused{members: map[types.UID]refusal{}}
	}
	maps.DeleteFunc(f.members, func(_ types.UID, x refusal) bool { return x.left(now) < 0 })
	f.members[member] = refusal{
		reason: reason, why: fmt.Sprintf("%s: %s", reason, message), at: now,
		free: reason == v1alpha1.RefusedNoCapacity && !mayAddNode,
	}
	f.last = now
	if f.epoch == epoch {
		return
	}
	f.epoch = epoch
	if f.streak++; f.streak < RefusalStreak {
		return
	}
	pause := refusalPauseMost
	if n := f.streak - RefusalStreak; n < 5 {
		pause = min(pause, RefusalPause<<n)
	}
	f.until = now.Add(jitter(pause))
}

// pausesNext reports whether one more refusal makes the session pause.
func (f *refused) pausesNext(epoch int64, now time.Time) bool {
	switch {
	case now.Sub(f.last) > streakLasts:
		return RefusalStreak <= 1
	case f.epoch == epoch:
		return f.streak >= RefusalStreak
	}
	return f.streak+1 >= RefusalStreak
}

// of returns which members refused the session recently, with the reasons.
func (f *refused) of(now time.Time) map[types.UID]string {
	out := map[types.UID]string{}
	for member, x := range f.members {
		if x.left(now) >= 0 {
			out[member] = x.why
		}
	}
	return out
}

// pause returns how long the session is not placed.
func (f *refused) pause(now time.Time) time.Duration {
	return max(0, f.until.Sub(now))
}

// expiry returns how long until the first refusal does not count any more, or 0 if
// there is none.
func (f *refused) expiry(now time.Time) (first time.Duration) {
	for _, x := range f.members {
		if left := x.left(now); left >= 0 {
			first = backoff.Sooner(first, left+time.Millisecond)
		}
	}
	return first
}

// lifted reports whether a member that had no capacity for the session has reported its
// capacity since. Refusals for other reasons do not depend on that.
func (f *refused) lifted(member types.UID, reported time.Time) bool {
	x, ok := f.members[member]
	return ok && x.reason == v1alpha1.RefusedNoCapacity && reported.After(x.at)
}

// Refuse records that a member refused a session's epoch; see refused.add.
func (m *Memory) Refuse(session, member types.UID, epoch int64, reason, message string, mayAddNode bool, now time.Time) {
	m.with(session, func(r *record) {
		if r.refused == nil {
			r.refused = &refused{}
		}
		r.refused.add(member, epoch, reason, message, mayAddNode, now)
	})
}

// Stored records that a member has stored a session's assignment.
func (m *Memory) Stored(session types.UID) {
	m.with(session, func(r *record) { r.refused = nil })
}

// RefusalExpired reports whether a member that had no capacity for a session has reported its
// capacity since, at reported.
func (m *Memory) RefusalExpired(session, member types.UID, reported time.Time) (expired bool) {
	m.with(session, func(r *record) { expired = r.refused != nil && r.refused.lifted(member, reported) })
	return expired
}

// jitter shortens a pause by up to a tenth, so that sessions do not end their pauses together.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/10+1)) //nolint:gosec // nothing is secret about it
}
