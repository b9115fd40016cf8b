package session

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// refusalLasts is how long a member that refused a session is not asked again
// for it. It is shorter than waitAtMost, so that the next look asks it.
const refusalLasts = 25 * time.Second

// refusals remembers which members refused which session lately. It may be
// forgotten at any time: the member refuses again.
type refusals struct {
	mu sync.Mutex
	by map[types.UID]map[types.UID]refusal
}

type refusal struct {
	why string
	at  time.Time
}

// add remembers that a member refused a session.
func (r *refusals) add(session, member types.UID, reason, message string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[types.UID]map[types.UID]refusal{}
	}
	for s, members := range r.by {
		maps.DeleteFunc(members, func(_ types.UID, f refusal) bool { return now.Sub(f.at) > refusalLasts })
		if len(members) == 0 {
			delete(r.by, s)
		}
	}
	if r.by[session] == nil {
		r.by[session] = map[types.UID]refusal{}
	}
	r.by[session][member] = refusal{why: fmt.Sprintf("%s: %s", reason, message), at: now}
}

// of returns which members refused a session lately, with why.
func (r *refusals) of(session types.UID, now time.Time) map[types.UID]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out map[types.UID]string
	for member, f := range r.by[session] {
		if now.Sub(f.at) > refusalLasts {
			continue
		}
		if out == nil {
			out = map[types.UID]string{}
		}
		out[member] = f.why
	}
	return out
}
