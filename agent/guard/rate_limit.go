package guard

import (
	"sync"
	"time"
)

const (
	// burst is how many requests about one assignment are answered at once, and every the
	// interval after that, before the time factor: a guard that starts sends many.
	burst = 10
	every = time.Second / 2
	// mostLimited is the most assignments that are remembered.
	mostLimited = 20000
)

// rateLimit limits the requests about each assignment, so that one Pod can't keep the agent
// busy with signing.
type rateLimit struct {
	every time.Duration

	mu sync.Mutex
	// next is when the tokens of an assignment would be replenished.
	next map[string]time.Duration
}

func newRateLimit(factor float64) rateLimit {
	return rateLimit{every: time.Duration(float64(every) * factor), next: map[string]time.Duration{}}
}

// allow reports whether another request about an assignment is answered.
func (p *rateLimit) allow(uid string, now time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := max(p.next[uid], now)
	if next-now > burst*p.every {
		return false
	}
	if len(p.next) >= mostLimited {
		p.forget(now)
	}
	p.next[uid] = next + p.every
	return true
}

// forget drops the assignments whose tokens are replenished.
func (p *rateLimit) forget(now time.Duration) {
	for uid, next := range p.next {
		if next <= now {
			delete(p.next, uid)
		}
	}
}
