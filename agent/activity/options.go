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
	// MinInterval is the least time between two probes of a desktop, by default 1 s. It is also
	// the first wait after a failed probe.
	MinInterval time.Duration
	// MaxInterval is the longest wait after failed probes, by default 1 min.
	MaxInterval time.Duration
	// IdleAfter is how long a desktop must not have been used until that is reported, by
	// default 5 min. Afterwards it is probed five times in as long, so that its next use
	// is reported soon.
	IdleAfter time.Duration
	// Timeout is the timeout of a probe, by default 2 s.
	Timeout time.Duration
	// Concurrent is how many desktops are probed at once, by default 16.
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
