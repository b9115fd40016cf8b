package placement

import (
	"cmp"
	"math"
	"strconv"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// ranking orders candidates that fit by a strategy.
type ranking struct {
	// name of the first number; second is that of the second number, if it is not always 0.
	name, second string
	// phrase completes "eu-west: 118 slots left, ... of 3 that fit".
	phrase string
	// rank returns two numbers; lower is better, and the second breaks ties of the first.
	// sessions excludes the session to be placed; left is the slots that the member has for
	// it, at least one. has is 1 for a member where a node has the image: it counts as one
	// session less, so that an image attracts sessions without crowding one member.
	rank func(c *Candidate, sessions, left, has int64) (ratio, int64)
}

var strategies = map[v1alpha1.Strategy]ranking{
	v1alpha1.StrategyLeastLoaded: leastLoaded,
	v1alpha1.StrategySpread:      spread,
	v1alpha1.StrategyBinPack:     binPack,
	v1alpha1.StrategyWeighted:    weighted,
}

// leastLoaded prefers the member with the smallest share in use after this session. A burst
// is thus distributed in proportion to the members' capacity, rather than sent to the
// largest until it is level with the next.
var leastLoaded = ranking{
	name: string(v1alpha1.StrategyLeastLoaded), phrase: "the least loaded",
	rank: func(_ *Candidate, sessions, left, has int64) (ratio, int64) {
		return ratio{sessions + 1 - has, sessions + left}, 0
	},
}

// binPack prefers the member with the largest share in use; among empty ones the smallest.
// Once chosen, a member is chosen again until it is full.
var binPack = ranking{
	name: string(v1alpha1.StrategyBinPack), second: "Slots", phrase: "the fullest",
	rank: func(_ *Candidate, sessions, left, has int64) (ratio, int64) {
		return ratio{left - has, sessions + left}, left - has
	},
}

// spread prefers the member with the fewest sessions.
var spread = ranking{
	name: string(v1alpha1.StrategySpread), phrase: "the one with the fewest sessions",
	rank: func(_ *Candidate, sessions, _, has int64) (ratio, int64) { return ratio{sessions - has, 1}, 0 },
}

// weighted distributes sessions in proportion to the members' weights. A member of weight 0
// ranks after all others.
var weighted = ranking{
	name: string(v1alpha1.StrategyWeighted), second: "Sessions", phrase: "the furthest below its weight's share",
	rank: func(c *Candidate, sessions, _, has int64) (ratio, int64) {
		weight := int64(100) // the default
		if c.Weight != nil {
			weight = int64(*c.Weight)
		}
		if weight <= 0 {
			return ratio{math.MaxInt32, 1}, sessions - has
		}
		return ratio{sessions + 1 - has, weight}, 0
	},
}

// ratio is a fraction with a positive denominator, compared exactly. Both
// terms are below 2^31 for any member that exists, so the products fit.
type ratio struct{ numerator, denominator int64 }

func (r ratio) compare(o ratio) int {
	return cmp.Compare(r.numerator*o.denominator, o.numerator*r.denominator)
}

// String returns the fraction, or the numerator alone if the denominator is 1.
func (r ratio) String() string {
	if r.denominator == 1 {
		return strconv.FormatInt(r.numerator, 10)
	}
	return strconv.FormatInt(r.numerator, 10) + "/" + strconv.FormatInt(r.denominator, 10)
}
