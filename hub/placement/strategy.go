package placement

import (
	"cmp"
	"math"
	"strconv"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// ranking orders candidates that fit by a strategy.
type ranking struct {
	// name of the first number, and second that of the second, where that is not always 0.
	name, second string
	// phrase completes "eu-west: 118 slots left, ... of 3 that fit".
	phrase string
	// rank returns two numbers: the lower the better, the second where the first is equal.
	// sessions are those of the member, less the one that asks; left is how many slots it
	// has left for it, at least one. has is 1 for a member where a node has the image: it
	// counts as if it were one session better, so that an image draws sessions, and no
	// crowd.
	rank func(c *Candidate, sessions, left, has int64) (ratio, int64)
}

var strategies = map[v1alpha1.Strategy]ranking{
	v1alpha1.StrategyLeastLoaded: leastLoaded,
	v1alpha1.StrategySpread:      spread,
	v1alpha1.StrategyBinPack:     binPack,
	v1alpha1.StrategyWeighted:    weighted,
}

// leastLoaded takes the member of which the smallest share would be used with
// this session in it. A burst is so shared out in proportion to the members'
// capacity, rather than poured into the largest until it is level with the next.
var leastLoaded = ranking{
	name: string(v1alpha1.StrategyLeastLoaded), phrase: "the least loaded",
	rank: func(_ *Candidate, sessions, left, has int64) (ratio, int64) {
		return ratio{sessions + 1 - has, sessions + left}, 0
	},
}

// binPack takes the member of which the largest share is used; among empty
// ones the smallest. Once chosen it is chosen again until it is full.
var binPack = ranking{
	name: string(v1alpha1.StrategyBinPack), second: "Slots", phrase: "the fullest",
	rank: func(_ *Candidate, sessions, left, has int64) (ratio, int64) {
		return ratio{left - has, sessions + left}, left - has
	},
}

// spread takes the member with the fewest sessions.
var spread = ranking{
	name: string(v1alpha1.StrategySpread), phrase: "the one with the fewest sessions",
	rank: func(_ *Candidate, sessions, _, has int64) (ratio, int64) { return ratio{sessions - has, 1}, 0 },
}

// weighted shares sessions out in proportion to the members' weights. A
// member of weight 0 comes after all others.
var weighted = ranking{
	name: string(v1alpha1.StrategyWeighted), second: "Sessions", phrase: "the furthest below its weight's share",
	rank: func(c *Candidate, sessions, _, has int64) (ratio, int64) {
		if c.Weight <= 0 {
			return ratio{math.MaxInt32, 1}, sessions - has
		}
		return ratio{sessions + 1 - has, int64(c.Weight)}, 0
	},
}

// ratio is a fraction with a positive denominator, compared exactly. Both
// terms are below 2^31 for any member that exists, so the products fit.
type ratio struct{ numerator, denominator int64 }

func (r ratio) compare(o ratio) int {
	return cmp.Compare(r.numerator*o.denominator, o.numerator*r.denominator)
}

// String is the fraction as it stands, and a whole number without the one.
func (r ratio) String() string {
	if r.denominator == 1 {
		return strconv.FormatInt(r.numerator, 10)
	}
	return strconv.FormatInt(r.numerator, 10) + "/" + strconv.FormatInt(r.denominator, 10)
}
