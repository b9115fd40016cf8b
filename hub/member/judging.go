package member

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// judgeWait is how long a session waits for the members' word on a template
// that is new to them. Without it the first member to answer would get the
// first sessions, whatever regions they prefer.
const judgeWait = 3 * time.Second

// Judging is whether a member that takes sessions has yet to say if it can run
// a template's revision. It turns false when all have said it, or judgeWait
// after it was first asked.
func (f *Reservations) Judging(key placement.TemplateKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.look()
	if !f.unjudged(key, now) {
		delete(f.judging, key)
		return false
	}
	since, ok := f.judging[key]
	if !ok {
		f.judging[key], since = now, now
	}
	return now.Sub(since) < judgeWait
}

func (f *Reservations) unjudged(key placement.TemplateKey, now time.Time) bool {
	for _, m := range f.members {
		if ready, _ := m.takesSessions(f.timings, now); !ready {
			continue
		}
		if _, judged := m.capacity.Templates[key]; !judged {
			return true
		}
	}
	return false
}
