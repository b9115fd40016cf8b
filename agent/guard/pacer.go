package guard

import (
	"sync"
	"time"
)

const (
	// burst of questions that one assignment may have answered, and how soon after
	// one another before the time factor: a guard that starts asks often.
	burst = 10
	every = time.Second / 2
	// mostPaced assignments are remembered.
	mostPaced = 20000
)

// pacer limits how often each assignment has its question answered, so that one
// Pod can't keep the agent busy with signing.
type pacer struct {
	every time.Duration

	mu sync.Mutex
	// next is when all that an assignment has asked would be paid for.
	next map[string]time.Duration
}

func newPacer(factor float64) pacer {
	return pacer{every: time.Duration(float64(every) * factor), next: map[string]time.Duration{}}
}

// may reports whether an assignment may have another answer.
func (p *pacer) may(uid string, now time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := max(p.next[uid], now)
	if next-now > burst*p.every {
		return false
	}
	if len(p.next) >= mostPaced {
		p.forget(now)
	}
	p.next[uid] = next + p.every
	return true
}

// forget those that have paid for all.
func (p *pacer) forget(now time.Duration) {
	for uid, next := range p.next {
		if next <= now {
			delete(p.next, uid)
		}
	}
}
