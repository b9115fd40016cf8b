package faults

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// doubt is what looks like a violation and may be a watch that lags. It becomes
// one when it has lasted for its patience, with every watch that could explain
// it at work, and its proof, if it has one, holds.
type doubt struct {
	promise  int
	about    types.UID // the session
	since    time.Time
	watched  []string
	patience time.Duration
	text     string
	// still: what is known by now does not explain it.
	still func() bool
	// proof asks the API servers themselves.
	proof func(context.Context, oracle) (bool, error)
}

// doubt begins one, unless it is there already.
func (c *checker) doubt(now time.Time, promise int, key string, d *doubt) {
	if c.doubts[key] == nil {
		d.promise, d.since = promise, now
		c.doubts[key] = d
	}
}

// due are the doubts that only a proof can end now. Those without a proof, and
// those that have come clear, are dealt with.
func (c *checker) due(now time.Time) map[string]*doubt {
	due := map[string]*doubt{}
	for _, key := range slices.Sorted(maps.Keys(c.doubts)) {
		d := c.doubts[key]
		switch {
		case !d.still():
			delete(c.doubts, key)
		case slices.ContainsFunc(d.watched, func(cluster string) bool { return c.blind[cluster] }):
			d.since = now
		case now.Sub(d.since) < d.patience:
		case d.proof != nil:
			due[key] = d
		default:
			delete(c.doubts, key)
			c.breach(now, d.promise, d.about, key, "%s", d.text)
		}
	}
	return due
}

// judge ends a doubt that was proven or disproven.
func (c *checker) judge(now time.Time, key string, d *doubt, proven bool) {
	if c.doubts[key] != d {
		return
	}
	delete(c.doubts, key)
	if proven {
		c.breach(now, d.promise, d.about, key, "%s", d.text)
	}
}
