package placement

import "strconv"

// named returns the numbers of a score in the order in which they decide.
func (s *score) named(q *query) []NamedScore {
	whole := func(name string, value int) NamedScore { return NamedScore{name, strconv.Itoa(value)} }
	out := make([]NamedScore, 0, 10)
	out = append(out,
		whole("PreferredRegion", s.region),
		whole("Overflow", s.tier),
		whole("PolicyRegion", s.policyRegion),
		whole("PolicyCluster", s.notPreferred),
		whole("AvoidedTaints", s.avoided),
	)
	out = append(out, NamedScore{q.strategy.name, s.strategy.String()})
	if second := q.strategy.second; second != "" {
		out = append(out, NamedScore{second, strconv.FormatInt(s.second, 10)})
	}
	if q.Current != nil {
		out = append(out, whole("Moves", s.moves))
	}
	return append(out, NamedScore{"Hash", strconv.FormatUint(tieBreak(q.UID, s.candidate.UID), 10)})
}
