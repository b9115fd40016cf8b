// Package reconnect lets caches of hub and agent follow an API server within five seconds of
// an outage.
//
// client-go's reflectors would follow it up to two minutes later: one waits for up to a minute
// before it opens its watch again, which the restarted API server has expired, and for another
// before it lists.
package reconnect
