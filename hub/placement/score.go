package placement

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// score ranks a candidate that fits. The fields are compared in the order of their
// declaration; the first that differs decides.
type score struct {
	candidate *Candidate

	// lost is the kind of the slot for a session of a lost member, which uses free slots anywhere
	// first, and 0 for others.
	lost Kind
	// region is the index of the member's region in the session's preferred regions; their
	// number if it is not among them.
	region int
	// tier of the policy's overflow that the member is in, from 0.
	tier int
	// policyRegion is the same for the policy's preferred regions.
	policyRegion int
	// notPreferred is 0 for a member that the policy prefers.
	notPreferred int
	// avoided counts the PreferNoSchedule taints that are not tolerated.
	avoided int
	// kind of the slot: a node that must be added comes after one that exists.
	kind Kind
	// strategy is the policy's score; lower is better.
	strategy ratio
	// second is the strategy's own tie-break; lower is better.
	second int64
	// moves is 0 for the member where the session is already placed.
	moves int
	// tie is the last tie-break.
	tie uint64

	// image is 1 for a member where a usable node has the image; the strategy takes it into
	// account.
	image int64
	// slots left of the kind, for explanations; not compared.
	slots int64
}

func (q *query) score(c *Candidate, a *account) score {
	kind, left := q.offer(c, a)
	s := score{
		candidate:    c,
		region:       rankOf(c.Region, q.PreferredRegions),
		tier:         q.tierOf(c, kind),
		policyRegion: rankOf(c.Region, q.policyRegions),
		notPreferred: 1,
		avoided:      countAvoided(q, c),
		kind:         kind,
		moves:        1,
		tie:          tieBreak(q.hash, a.hash),
		slots:        left,
	}
	if a.evaluate(q.class).image {
		s.image = 1
	}
	if q.Failover {
		s.lost = kind
	}
	if q.isCurrent(c) {
		s.moves = 0
	}
	if q.preferred != nil && q.preferred.Matches(labels.Set(c.Labels)) {
		s.notPreferred = 0
	}
	s.strategy, s.second = q.strategy.rank(c, q.sessions(c), left, s.image)
	return s
}

// named returns the numbers of a score in the order in which they decide.
func (s *score) named(q *query) []v1alpha1.PlacementScore {
	out := make([]v1alpha1.PlacementScore, 0, 11)
	add := func(name string, value any) {
		out = append(out, v1alpha1.PlacementScore{Name: name, Value: fmt.Sprint(value)})
	}
	if q.grows && q.Failover {
		add("Capacity", int(s.lost))
	}
	add("PreferredRegion", s.region)
	add("Overflow", s.tier)
	add("PolicyRegion", s.policyRegion)
	add("PolicyCluster", s.notPreferred)
	add("AvoidedTaints", s.avoided)
	if q.grows && !q.Failover {
		add("Capacity", int(s.kind))
	}
	add(q.strategy.name, s.strategy)
	if second := q.strategy.second; second != "" {
		add(second, s.second)
	}
	if q.Current != nil {
		add("Moves", s.moves)
	}
	add("Hash", s.tie)
	return out
}

// compare orders two candidates for a session. It is never 0, so that the order of the
// input never matters.
func (s *score) compare(t *score) int {
	return cmp.Or(s.comparePreferences(t), s.compareStrategy(t))
}

// comparePreferences compares by preferences and by the kind of the slot, whatever the number of
// slots.
func (s *score) comparePreferences(t *score) int {
	switch {
	case s.lost != t.lost:
		return cmp.Compare(s.lost, t.lost)
	case s.region != t.region:
		return cmp.Compare(s.region, t.region)
	case s.tier != t.tier:
		return cmp.Compare(s.tier, t.tier)
	case s.policyRegion != t.policyRegion:
		return cmp.Compare(s.policyRegion, t.policyRegion)
	case s.notPreferred != t.notPreferred:
		return cmp.Compare(s.notPreferred, t.notPreferred)
	case s.avoided != t.avoided:
		return cmp.Compare(s.avoided, t.avoided)
	}
	return cmp.Compare(s.kind, t.kind)
}

// compareStrategy compares by the policy's strategy, and then by the tie-breaks.
func (s *score) compareStrategy(t *score) int {
	order := cmp.Or(
		s.strategy.compare(t.strategy),
		cmp.Compare(s.second, t.second),
		cmp.Compare(s.moves, t.moves),
		cmp.Compare(s.tie, t.tie),
	)
	if order != 0 {
		return order
	}
	return cmp.Compare(s.candidate.UID, t.candidate.UID)
}

// rankOf returns the index of a region in a list, or the list's length if it is absent.
func rankOf(region string, list []string) int {
	if i := slices.Index(list, region); i >= 0 {
		return i
	}
	return len(list)
}

func countAvoided(q *query, c *Candidate) int {
	n := 0
	for i := range c.Taints {
		t := &c.Taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule && !q.tolerates(t) {
			n++
		}
	}
	return n
}

// hashOf returns a hash of a UID (FNV-1a). It is the same in every process.
func hashOf(uid types.UID) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(uid) {
		h = (h ^ uint64(uid[i])) * prime
	}
	return h
}

// tieBreak mixes the hashes of a session and a member, so that each session ranks equal members in
// an order of its own.
func tieBreak(session, member uint64) uint64 {
	h := session ^ member
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
