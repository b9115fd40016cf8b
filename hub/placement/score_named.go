package placement

import (
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// named returns the numbers of a score in the order in which they decide.
func (s *score) named(q *query) []v1alpha1.PlacementScore {
	out := make([]v1alpha1.PlacementScore, 0, 10)
	add := func(name string, value any) {
		out = append(out, v1alpha1.PlacementScore{Name: name, Value: fmt.Sprint(value)})
	}
	add("PreferredRegion", s.region)
	add("Overflow", s.tier)
	add("PolicyRegion", s.policyRegion)
	add("PolicyCluster", s.notPreferred)
	add("AvoidedTaints", s.avoided)
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
