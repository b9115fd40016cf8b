package failover

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Rates at which sessions are rescheduled, a second. No time factor scales them.
const (
	fleetRate  = 20
	targetRate = 10
	// slowdown divides both while so large a part of the fleet is gone.
	slowdown = 10
	// massPercent of the members gone is mass failure.
	massPercent = 55
)

const (
	// lookAgain is after how long at the most somebody who waits is to ask again:
	// the rates may be others by then.
	lookAgain = 10 * time.Second
	// forgotten is how long after his turn somebody who did not come is remembered.
	forgotten = 30 * time.Second
)

// Mass is whether so many of the fleet's members are gone that sessions are to
// be rescheduled more slowly.
func Mass(gone, members int) bool { return members > 0 && gone*100 >= members*massPercent }

// Brake limits how fast sessions are rescheduled, in all and for each target. It
// is for one goroutine at a time.
type Brake struct {
	fleet   gate
	targets map[types.UID]*gate
}

// NewBrake makes one that nobody has passed yet.
func NewBrake() *Brake { return &Brake{targets: map[types.UID]*gate{}} }

// Fleet is how long a session has to wait for its turn; 0: it may go, once Target
// lets it. Mass is as the function of that name says.
func (b *Brake) Fleet(session types.UID, mass bool, now time.Time) time.Duration {
	return b.fleet.ask(session, rate(fleetRate, mass), now)
}

// Target is the same for a target.
func (b *Brake) Target(session, target types.UID, mass bool, now time.Time) time.Duration {
	return b.gate(target).ask(session, rate(targetRate, mass), now)
}

// Pass notes that a session goes to a target, which Fleet and Target have let it.
func (b *Brake) Pass(session, target types.UID) {
	b.fleet.pass(session)
	b.gate(target).pass(session)
}

// Leave forgets a session that does not wait any more.
func (b *Brake) Leave(session types.UID) {
	delete(b.fleet.turns, session)
	for _, g := range b.targets {
		delete(g.turns, session)
	}
}

// Forget a target that there is no more.
func (b *Brake) Forget(target types.UID) { delete(b.targets, target) }

// Waiting is how many sessions wait for their turn.
func (b *Brake) Waiting(now time.Time) int {
	who := map[types.UID]struct{}{}
	note := func(g *gate) {
		g.tidy(now)
		for session := range g.turns {
			who[session] = struct{}{}
		}
	}
	note(&b.fleet)
	for _, g := range b.targets {
		note(g)
	}
	return len(who)
}

func (b *Brake) gate(target types.UID) *gate {
	g := b.targets[target]
	if g == nil {
		g = &gate{}
		b.targets[target] = g
	}
	return g
}

// gate is a token bucket that holds the tokens of one second, but at least one.
type gate struct {
	tokens float64
	// at is when tokens was true; zero: the bucket is full.
	at time.Time
	// turns are when those who found no token were told to come again, one after
	// another so that they don't all come at once; last is the latest of them.
	turns map[types.UID]time.Time
	last  time.Time
}

// ask is how long it takes until there is a token, as far as is known.
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
	if g.turns == nil {
		g.turns = map[types.UID]time.Time{}
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
		now = g.at // a clock that goes back makes no tokens
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
