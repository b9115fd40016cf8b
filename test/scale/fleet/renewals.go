package main

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// fewestRenewals have a bound: of a hundred, the 99th percentile is the slowest but one.
const fewestRenewals = 1000

// renewals has the durations of lease renewals, and the last of each member.
type renewals struct {
	mu   sync.Mutex
	took []time.Duration
	last map[*member]time.Time
}

func (r *renewals) add(m *member, sent, granted time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = append(r.took, granted.Sub(sent))
	if r.last == nil {
		r.last = map[*member]time.Time{}
	}
	r.last[m] = granted
}

func (r *renewals) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = nil
}

// since returns how many members have renewed since then.
func (r *renewals) since(t time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, last := range r.last {
		if last.After(t) {
			n++
		}
	}
	return n
}

// check prints the durations, and records a missed bound.
func (r *renewals) check(f *fleet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.took) == 0 {
		return
	}
	slices.Sort(r.took)
	n := len(r.took)
	fmt.Printf("  %d renewals: p50 %s, max %s\n", n, r.took[n/2].Round(time.Microsecond), r.took[n-1].Round(time.Microsecond))
	p99 := r.took[n*99/100].Round(time.Microsecond)
	if n < fewestRenewals {
		fmt.Printf("  p99 of the renewals: %s\n", p99)
		return
	}
	atMost(f, "p99 of the renewals", p99, wider(f, renewalBound))
}
