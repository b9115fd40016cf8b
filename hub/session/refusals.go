package session

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
)

const (
	// refusalLasts is how long a member that refused a session is not asked
	// again for it, unless it reports room for it before.
	refusalLasts = 25 * time.Second
	// refusalStays is the same where the settings of the member's administrator do not
	// allow the session, which only people change.
	refusalStays = 5 * time.Minute
	// refusalStreak is how many members may refuse a session one after the other
	// before it pauses.
	refusalStreak = 3
	// refusalPause is the first pause; each refusal after it doubles it, up to
	// refusalPauseMost.
	refusalPause     = time.Second
	refusalPauseMost = 30 * time.Second
	// streakLasts is how long a streak is remembered.
	streakLasts = refusalStays
)

// refusals remembers which members refused which session lately. It may be
// forgotten at any time: the member refuses again.
type refusals struct {
	mu sync.Mutex
	by map[types.UID]*refused
}

// refused is what members said of a session.
type refused struct {
	members map[types.UID]refusal
	// streak is how many refused it since one took it; until then it pauses.
	streak int
	// epoch that was refused last.
	epoch int64
	last  time.Time
	until time.Time
}

type refusal struct {
	reason, why string
	at          time.Time
}

// left is how long the member is not asked again yet; negative: it may be.
func (x refusal) left(now time.Time) time.Duration {
	lasts := refusalLasts
	if x.reason == v1alpha1.RefusedNotAllowed {
		lasts = refusalStays
	}
	return lasts - now.Sub(x.at)
}

// add remembers that a member refused a session's epoch; pauses is whether that was
// one too many, so that it is not tried elsewhere at once. An epoch that is noted
// again, since the write about it failed, counts once.
func (r *refusals) add(session, member types.UID, epoch int64, reason, message string, now time.Time) (pauses bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[types.UID]*refused{}
	}
	maps.DeleteFunc(r.by, func(_ types.UID, f *refused) bool { return now.Sub(f.last) > streakLasts })
	f := r.by[session]
	if f == nil {
		f = &refused{members: map[types.UID]refusal{}}
		r.by[session] = f
	}
	maps.DeleteFunc(f.members, func(_ types.UID, x refusal) bool { return x.left(now) < 0 })
	f.members[member] = refusal{reason: reason, why: fmt.Sprintf("%s: %s", reason, message), at: now}
	f.last = now
	if f.epoch == epoch {
		return f.streak >= refusalStreak
	}
	f.epoch = epoch
	if f.streak++; f.streak < refusalStreak {
		return false
	}
	pause := refusalPauseMost
	if n := f.streak - refusalStreak; n < 5 {
		pause = min(pause, refusalPause<<n)
	}
	f.until = now.Add(jitter(pause))
	return true
}

// of returns which members refused a session lately, with why.
func (r *refusals) of(session types.UID, now time.Time) map[types.UID]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.by[session]
	if f == nil {
		return nil
	}
	var out map[types.UID]string
	for member, x := range f.members {
		if x.left(now) < 0 {
			continue
		}
		if out == nil {
			out = map[types.UID]string{}
		}
		out[member] = x.why
	}
	return out
}

// pause is how long a session is not to be tried yet.
func (r *refusals) pause(session types.UID, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.by[session]; f != nil {
		return max(0, f.until.Sub(now))
	}
	return 0
}

// fade is when the first of the members that refused a session may be asked
// again; zero: none did.
func (r *refusals) fade(session types.UID, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.by[session]
	if f == nil {
		return 0
	}
	var first time.Duration
	for _, x := range f.members {
		if left := x.left(now); left >= 0 {
			first = backoff.Sooner(first, left+time.Millisecond)
		}
	}
	return first
}

// lift forgets that a member had no room for a session, if that was before it
// reported its room; it is false where there is nothing to forget. What else it
// refused for, its reports say nothing of.
func (r *refusals) lift(session, member types.UID, reported time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.by[session]
	if f == nil {
		return false
	}
	x, ok := f.members[member]
	if !ok || x.reason != v1alpha1.RefusedNoRoom || !reported.After(x.at) {
		return false
	}
	delete(f.members, member)
	return true
}

// forget a session that a member has taken, or that is gone.
func (r *refusals) forget(session types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.by, session)
}
