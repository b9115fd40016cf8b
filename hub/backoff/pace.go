package backoff

import (
	"maps"
	"sync"
	"time"
)

// Pace spaces what is repeated for the same key. The zero value is ready for use, by any
// goroutine. It remembers each key until the next repetition is due.
type Pace[K comparable] struct {
	mu  sync.Mutex
	due map[K]time.Time
}

// Wait returns how long the next repetition for a key must wait; zero: not at all.
func (p *Pace[K]) Wait(key K, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, p.due[key].Sub(now))
}

// Took notes a repetition for a key: the next one is due after the interval.
func (p *Pace[K]) Took(key K, now time.Time, interval time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.due, func(_ K, due time.Time) bool { return !now.Before(due) })
	if p.due == nil {
		p.due = map[K]time.Time{}
	}
	p.due[key] = now.Add(interval)
}

// Forget makes the next repetition for a key due at once.
func (p *Pace[K]) Forget(key K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.due, key)
}
