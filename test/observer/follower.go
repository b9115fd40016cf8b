package observer

import (
	"context"
	"sync"
	"time"
)

// confirmed is how long an overlap must last before it is reported while one of its desktops
// has no end yet: the record of its end may not be written yet. A History is exact whenever
// all writers of the logs have ended or are idle.
const confirmed = 2 * time.Second

// A Follower reads logs while they are written. Its methods may be called concurrently
// at any time.
type Follower struct {
	mu       sync.Mutex
	reader   *reader
	errs     []error
	reported map[pair]bool
	// confirmed is how long an open overlap lasts before it is reported.
	confirmed time.Duration
}

// pair names two runs.
type pair struct{ first, second life }

// Follow reads logs from their beginnings; they need not exist yet.
func Follow(paths ...string) *Follower {
	return &Follower{reader: newReader(paths), reported: map[pair]bool{}, confirmed: confirmed}
}

// History returns what ran until now, and the errors of all readings.
func (f *Follower) History() (History, []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	until := now()
	if err := f.reader.read(); err != nil {
		f.errs = append(f.errs, err)
	}
	return f.reader.ledger.history(until), f.errs
}

// Watch reads new records until ctx ends, and reports each overlap that is not permitted
// once. may is as for Overlaps.
func (f *Follower) Watch(ctx context.Context, every time.Duration, may func(session string) bool, report func(Overlap)) {
	for {
		history, _ := f.History()
		for _, overlap := range f.fresh(history.Overlaps(may)) {
			report(overlap)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

// fresh returns the overlaps that are certain and have not been reported.
func (f *Follower) fresh(overlaps []Overlap) []Overlap {
	f.mu.Lock()
	defer f.mu.Unlock()
	var fresh []Overlap
	for _, o := range overlaps {
		certain := !o.First.Open && !o.Second.Open || o.Length() >= f.confirmed
		if id := (pair{o.First.life(), o.Second.life()}); certain && !f.reported[id] {
			f.reported[id] = true
			fresh = append(fresh, o)
		}
	}
	return fresh
}

func (r Run) life() life { return life{r.Member, r.PodUID, r.Container, r.Restart} }
