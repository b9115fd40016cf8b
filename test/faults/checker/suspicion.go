package checker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Suspicion is an apparent violation that a lagging watch may explain. It becomes a violation when
// it has lasted for its wait, while every watch that could explain it worked, and Confirm, if
// there is one, returns true.
type Suspicion struct {
	guarantee int
	about     types.UID // the session
	since     time.Time
	watches   []string
	wait      time.Duration
	text      string
	// unexplained reports whether no observation explains it yet.
	unexplained func() bool
	// prepare is called before Confirm, while the checker is locked.
	prepare func()
	// Confirm reads from the API servers themselves.
	Confirm func(context.Context, APIReader) (bool, error)
}

// suspicions are the open suspicions, by key.
type suspicions map[string]*Suspicion

// suspect opens a suspicion, unless it is open already.
func (s suspicions) suspect(now time.Time, guarantee int, key string, d *Suspicion) {
	if s[key] == nil {
		d.guarantee, d.since = guarantee, now
		s[key] = d
	}
}

// Due returns the suspicions that only Confirm can resolve now. It reports those without a
// Confirm, and deletes those that are explained.
func (c *Checker) Due(now time.Time) map[string]*Suspicion {
	s, due := c.suspicions, map[string]*Suspicion{}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		d := s[key]
		if d.prepare != nil {
			d.prepare()
		}
		switch {
		case !d.unexplained():
			delete(s, key)
		case slices.ContainsFunc(d.watches, func(cluster string) bool { return c.interrupted[cluster] }):
			d.since = now
		case now.Sub(d.since) < d.wait:
		case d.Confirm != nil:
			due[key] = d
		default:
			delete(s, key)
			c.Report(now, d.guarantee, d.about, key, "%s", d.text)
		}
	}
	return due
}

// Undecided returns an error while any suspicion is unexplained.
func (s suspicions) Undecided() error {
	for _, d := range s {
		if d.unexplained() {
			return errors.New("suspected: " + d.text)
		}
	}
	return nil
}

// Resolve ends a suspicion with the result of Confirm.
func (c *Checker) Resolve(now time.Time, key string, d *Suspicion, proven bool) {
	if c.suspicions[key] != d {
		return
	}
	delete(c.suspicions, key)
	if proven {
		c.Report(now, d.guarantee, d.about, key, "%s", d.text)
	}
}
