package link

import (
	"context"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Delays before connecting again, before the time factor.
const (
	firstReconnect = 5 * time.Second
	maxReconnect   = 10 * time.Second
)

// reconnectDelay returns the delay before the next connection, with full jitter so that the
// agents of a fleet do not reconnect at once: within 5 s after a connection that worked, and
// a limit of 10 s after failures, so that a hub whose leader has died serves all members
// within 30 s. Random is from [0, 1).
func reconnectDelay(failures int, random float64) time.Duration {
	limit := firstReconnect
	if failures > 0 {
		limit = maxReconnect
	}
	return time.Duration(random * float64(limit))
}

// untilDone calls f until it succeeds, with backoff up to 10 s. It returns false if the
// context ends first.
func untilDone(ctx context.Context, f func() error) bool {
	pauses := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 10 * time.Second, Steps: math.MaxInt}
	return pauses.DelayFunc().Until(ctx, true, true, func(context.Context) (bool, error) { return f() == nil, nil }) == nil
}
