package link

import "time"

// Delays before connecting again, before the time factor.
const (
	firstReconnect = 5 * time.Second
	maxReconnect   = 30 * time.Second
)

// reconnectDelay is how long to wait before connecting again: anywhere within
// 5 s after a connection that worked, then within a limit that doubles to
// 30 s. Random is from [0, 1): spread over all of it, so that the agents of a
// fleet do not come back at once.
func reconnectDelay(failures int, random float64) time.Duration {
	limit := firstReconnect
	for range failures {
		limit = min(2*limit, maxReconnect)
	}
	return time.Duration(random * float64(limit))
}
