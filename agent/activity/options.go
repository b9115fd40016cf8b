package activity

import (
	"cmp"
	"time"

	"k8s.io/utils/clock"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
)

// Options of a Prober. The zero value of each means its default.
type Options struct {
	// Clock of the member, by default the real one.
	Clock clock.WithTicker
	// MinInterval is the least time between two probes of a desktop, by default 1 s, and
	// the delay after the first failed probe.
	MinInterval time.Duration
	// MaxInterval is the longest delay after failed probes, by default 1 min.
	MaxInterval time.Duration
	// IdleAfter is how long a desktop must be unused before it is reported as idle, by
	// default 5 min. It is then probed every fifth of that, so that its next use is
	// reported soon.
	IdleAfter time.Duration
	// Timeout is the timeout of a probe, by default 2 s.
	Timeout time.Duration
	// Concurrent is the number of concurrent probes, by default 16.
	Concurrent int
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	o.MinInterval = cmp.Or(o.MinInterval, time.Second)
	o.MaxInterval = cmp.Or(o.MaxInterval, time.Minute)
	o.IdleAfter = cmp.Or(o.IdleAfter, observe.IdleAfter)
	o.Timeout = cmp.Or(o.Timeout, 2*time.Second)
	o.Concurrent = cmp.Or(o.Concurrent, 16)
	return o
}

// Idle returns IdleAfter, or its default.
func (o Options) Idle() time.Duration { return o.withDefaults().IdleAfter }
