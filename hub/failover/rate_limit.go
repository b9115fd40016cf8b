package failover

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Rates at which sessions are rescheduled, per second. No time factor scales them.
const (
	fleetRate  = 20
	targetRate = 10
	// slowdown divides both during a mass failure.
	slowdown = 10
	// massPercent is the share of lost members that is a mass failure.
	massPercent = 55
)

const (
	// maxWait is the longest time until a waiting session is retried: the rates may have
	// changed by then.
	maxWait = 10 * time.Second
	// entryLifetime is how long a waiting session is counted after its retry time, and
	// sweepInterval the least time between two checks of all who wait.
	entryLifetime = 30 * time.Second
	sweepInterval = time.Second
)

// IsMassFailure reports whether so many of the fleet's members are lost that sessions are
// rescheduled more slowly.
func IsMassFailure(gone, members int) bool { return members > 0 && gone*100 >= members*massPercent }

// RateLimit limits how fast sessions are rescheduled, in total and for each target. It is not
// safe for concurrent use.
type RateLimit struct {
	fleet   bucket
	targets map[types.UID]*bucket
}

// NewRateLimit returns a rate limit with full buckets.
func NewRateLimit() *RateLimit {
	return &RateLimit{fleet: bucket{retryAt: map[types.UID]time.Time{}}, targets: map[types.UID]*bucket{}}
}

// FleetWait returns how long the fleet's rate limit delays a session, or 0 if only
// TargetWait may delay it. mass is the result of IsMassFailure.
func (b *RateLimit) FleetWait(session types.UID, mass bool, now time.Time) time.Duration {
	return b.fleet.wait(session, rate(fleetRate, mass), now)
}

// TargetWait returns how long a target's rate limit delays a session, or 0.
func (b *RateLimit) TargetWait(session, target types.UID, mass bool, now time.Time) time.Duration {
	return b.bucket(target).wait(session, rate(targetRate, mass), now)
}

// Consume records that a session is placed in a target, as FleetWait and TargetWait permit.
func (b *RateLimit) Consume(session, target types.UID) {
	b.fleet.take(session)
	b.bucket(target).take(session)
}

// Remove removes a session that does not wait any more.
func (b *RateLimit) Remove(session types.UID) {
	delete(b.fleet.retryAt, session)
	for _, g := range b.targets {
		delete(g.retryAt, session)
	}
}

// RemoveTarget removes a target that no longer exists.
func (b *RateLimit) RemoveTarget(target types.UID) { delete(b.targets, target) }

// WaitingSessions returns how many sessions wait for the rate limits.
func (b *RateLimit) WaitingSessions(now time.Time) int {
	retryAt := map[types.UID]time.Time{}
	for _, g := range append(slices.Collect(maps.Values(b.targets)), &b.fleet) {
		g.expire(now)
		maps.Copy(retryAt, g.retryAt)
	}
	return len(retryAt)
}

func (b *RateLimit) bucket(target types.UID) *bucket {
	g := b.targets[target]
	if g == nil {
		g = &bucket{retryAt: map[types.UID]time.Time{}}
		b.targets[target] = g
	}
	return g
}

// bucket is a token bucket that holds the tokens of one second, but at least one.
type bucket struct {
	tokens float64
	// at is when tokens was computed, or zero before the first time: the bucket is full.
	at time.Time
	// retryAt has the staggered times at which sessions without a token are retried; last is
	// the latest.
	retryAt map[types.UID]time.Time
	last    time.Time
	// swept is when retryAt was last checked for expired entries.
	swept time.Time
}

// wait returns the estimated time until there is a token for the session.
func (g *bucket) wait(session types.UID, rate float64, now time.Time) time.Duration {
	g.fill(rate, now)
	if g.tokens >= 1 {
		return 0
	}
	if retry, ok := g.retryAt[session]; ok && retry.After(now) {
		return min(retry.Sub(now), maxWait)
	}
	g.expire(now)
	retry := Later(now.Add(seconds((1-g.tokens)/rate)), g.last.Add(seconds(1/rate)))
	if retry.Sub(now) > maxWait {
		retry = now.Add(maxWait)
	}
	g.retryAt[session], g.last = retry, retry
	return max(retry.Sub(now), 1)
}

func (g *bucket) fill(rate float64, now time.Time) {
	capacity := max(1, rate)
	switch {
	case g.at.IsZero():
		g.tokens = capacity
	case now.After(g.at):
		g.tokens += now.Sub(g.at).Seconds() * rate
	default:
		now = g.at // a clock that is set back adds no tokens
	}
	g.tokens, g.at = min(g.tokens, capacity), now
}

func (g *bucket) take(session types.UID) {
	g.tokens--
	delete(g.retryAt, session)
}

func (g *bucket) expire(now time.Time) {
	if age := now.Sub(g.swept); age >= 0 && age < sweepInterval {
		return
	}
	g.swept = now
	maps.DeleteFunc(g.retryAt, func(_ types.UID, retry time.Time) bool { return now.Sub(retry) > entryLifetime })
}

func rate(full float64, mass bool) float64 {
	if mass {
		return full / slowdown
	}
	return full
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
