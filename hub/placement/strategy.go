package placement

import (
	"cmp"
	"math"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// ranking orders candidates that fit by a strategy: the lower the better, the
// second number where the first is equal. left is how many slots the member
// has left for the request, at least one.
type ranking interface {
	rank(c *Candidate, left int64) (ratio, int64)
	// phrase completes "eu-west: 118 slots left, ... of 3 that fit".
	phrase() string
}

var strategies = map[v1alpha1.Strategy]ranking{
	v1alpha1.StrategyLeastLoaded: leastLoaded{},
	v1alpha1.StrategySpread:      spread{},
	v1alpha1.StrategyBinPack:     binPack{},
	v1alpha1.StrategyWeighted:    weighted{},
}

// leastLoaded takes the member of which the smallest share would be used with
// this session in it. A burst is so shared out in proportion to the members'
// room, rather than poured into the largest until it is level with the next.
type leastLoaded struct{}

func (leastLoaded) rank(c *Candidate, left int64) (ratio, int64) {
	used := int64(max(c.Sessions, 0))
	return ratio{used + 1, used + left}, 0
}

func (leastLoaded) phrase() string { return "the least loaded" }

// binPack takes the member of which the largest share is used; among empty
// ones the smallest. Once chosen it is chosen again until it is full.
type binPack struct{}

func (binPack) rank(c *Candidate, left int64) (ratio, int64) {
	return ratio{left, int64(max(c.Sessions, 0)) + left}, left
}

func (binPack) phrase() string { return "the fullest" }

// spread takes the member with the fewest sessions.
type spread struct{}

func (spread) rank(c *Candidate, _ int64) (ratio, int64) {
	return ratio{int64(max(c.Sessions, 0)), 1}, 0
}

func (spread) phrase() string { return "the one with the fewest sessions" }

// weighted shares sessions out in proportion to the members' weights. A
// member of weight 0 comes after all others.
type weighted struct{}

func (weighted) rank(c *Candidate, _ int64) (ratio, int64) {
	sessions := int64(max(c.Sessions, 0))
	if c.Weight <= 0 {
		return ratio{math.MaxInt32, 1}, sessions
	}
	return ratio{sessions + 1, int64(c.Weight)}, 0
}

func (weighted) phrase() string { return "the furthest below its weight's share" }

// ratio is a fraction with a positive denominator, compared exactly. Both
// terms are below 2^31 for any member that exists, so the products fit.
type ratio struct{ numerator, denominator int64 }

func (r ratio) compare(o ratio) int {
	return cmp.Compare(r.numerator*o.denominator, o.numerator*r.denominator)
}
