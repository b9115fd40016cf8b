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
	// slowdown divides both while so large a part of the fleet is gone.
	slowdown = 10
	// massPercent of the members gone is mass failure.
	massPercent = 55
)

const (
	// lookAgain is the longest time until a waiting session asks again: the rates may have
	// changed by then.
	lookAgain = 10 * time.Second
	// forgotten is how long a waiting session is remembered after its time to ask.
	forgotten = 30 * time.Second
)

// Mass reports whether so many of the fleet's members are gone that sessions are
// rescheduled more slowly.
func Mass(gone, members int) bool { return members > 0 && gone*100 >= members*massPercent }

// Brake limits how fast sessions are rescheduled, in total and for each target. It is not
// safe for concurrent use.
type Brake struct {
	fleet   gate
	targets map[types.UID]*gate
}

// NewBrake returns a brake with full buckets.
func NewBrake() *Brake {
	return &Brake{fleet: gate{turns: map[types.UID]time.Time{}}, targets: map[types.UID]*gate{}}
}

// Fleet returns how long a session has to wait for the fleet's rate limit; 0: it may be
// placed, if Target permits. mass is the result of Mass.
func (b *Brake) Fleet(session types.UID, mass bool, now time.Time) time.Duration {
	return b.fleet.ask(session, rate(fleetRate, mass), now)
}

// Target does the same for a target.
func (b *Brake) Target(session, target types.UID, mass bool, now time.Time) time.Duration {
	return b.gate(target).ask(session, rate(targetRate, mass), now)
}

// Pass records that a session is placed in a target, as Fleet and Target permitted.
func (b *Brake) Pass(session, target types.UID) {
	b.fleet.pass(session)
	b.gate(target).pass(session)
}

// Leave removes a session that does not wait any more.
func (b *Brake) Leave(session types.UID) {
	delete(b.fleet.turns, session)
	for _, g := range b.targets {
		delete(g.turns, session)
	}
}

// Forget removes a target that no longer exists.
func (b *Brake) Forget(target types.UID) { delete(b.targets, target) }

// Waiting returns how many sessions wait for the rate limits.
func (b *Brake) Waiting(now time.Time) int {
	turns := map[types.UID]time.Time{}
	for _, g := range append(slices.Collect(maps.Values(b.targets)), &b.fleet) {
		g.tidy(now)
		maps.Copy(turns, g.turns)
	}
	return len(turns)
}

func (b *Brake) gate(target types.UID) *gate {
	g := b.targets[target]
	if g == nil {
		g = &gate{turns: map[types.UID]time.Time{}}
		b.targets[target] = g
	}
	return g
}

// gate is a token bucket that holds the tokens of one second, but at least one.
type gate struct {
	tokens float64
	// at is when tokens was computed; zero: the bucket is full.
	at time.Time
	// turns are the times at which sessions without a token are to ask again, staggered so
	// that they don't all ask at once; last is the latest.
	turns map[types.UID]time.Time
	last  time.Time
}

// ask returns the estimated time until there is a token for the session.
func (g *gate) ask(session types.UID, rate float64, now time.Time) time.Duration {
	g.fill(rate, now)
	if g.tokens >= 1 {
		return 0
	}
	if turn, ok := g.turns[session]; ok && turn.After(now) {
		return min(turn.Sub(now), lookAgain)
	}
	g.tidy(now)
	turn := later(now.Add(seconds((1-g.tokens)/rate)), g.last.Add(seconds(1/rate)))
	if turn.Sub(now) > lookAgain {
		turn = now.Add(lookAgain)
	}
	g.turns[session], g.last = turn, turn
	return max(turn.Sub(now), 1)
}

func (g *gate) fill(rate float64, now time.Time) {
	most := max(1, rate)
	switch {
	case g.at.IsZero():
		g.tokens = most
	case now.After(g.at):
		g.tokens += now.Sub(g.at).Seconds() * rate
	default:
		now = g.at // a clock that is set back adds no tokens
	}
	g.tokens, g.at = min(g.tokens, most), now
}

func (g *gate) pass(session types.UID) {
	g.tokens--
	delete(g.turns, session)
}

func (g *gate) tidy(now time.Time) {
	maps.DeleteFunc(g.turns, func(_ types.UID, turn time.Time) bool { return now.Sub(turn) > forgotten })
}

func rate(full float64, mass bool) float64 {
	if mass {
		return full / slowdown
	}
	return full
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
