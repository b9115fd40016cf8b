package activity

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
)

// Options of an Asker. The zero value of each means its default.
type Options struct {
	// Clock of the member; by default the real one.
	Clock clock.Clock
	// Least is the least time between two questions to a desktop, by default
	// 1 s. It is also the first wait after an answer that was not understood.
	Least time.Duration
	// Most is the longest wait after such answers, by default 1 min.
	Most time.Duration
	// IdleAfter is how long a desktop must not have been used for that to be told
	// of its session, by default 5 min. While it is not, it is asked five times in
	// as long, so that it is soon told when it is used again.
	IdleAfter time.Duration
	// Patience with an answer, by default 2 s.
	Patience time.Duration
	// Concurrent is how many desktops are asked at once, by default 16.
	Concurrent int
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Least <= 0 {
		o.Least = time.Second
	}
	if o.Most <= 0 {
		o.Most = time.Minute
	}
	if o.IdleAfter <= 0 {
		o.IdleAfter = observe.IdleAfter
	}
	if o.Patience <= 0 {
		o.Patience = 2 * time.Second
	}
	if o.Concurrent <= 0 {
		o.Concurrent = 16
	}
	return o
}

// Idle is IdleAfter, or its default.
func (o Options) Idle() time.Duration { return o.withDefaults().IdleAfter }
