package link

import (
	"context"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// maxReconnect is the limit of the delay before connecting again, before the time factor.
const maxReconnect = 5 * time.Second

// reconnectDelay returns the delay before the next connection, with full jitter so that the
// agents of a fleet do not reconnect at once. It does not grow with failures: half of the time
// within which a hub whose leader has died serves all members, 30 s, is that of its lock.
// Random is from [0, 1).
func reconnectDelay(random float64) time.Duration {
	return time.Duration(random * float64(maxReconnect))
}

// untilDone calls f until it succeeds, with backoff up to 10 s. It returns false if the
// context ends first.
func untilDone(ctx context.Context, f func() error) bool {
	pauses := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Cap: 10 * time.Second, Steps: math.MaxInt}
	return pauses.DelayFunc().Until(ctx, true, true, func(context.Context) (bool, error) { return f() == nil, nil }) == nil
}
