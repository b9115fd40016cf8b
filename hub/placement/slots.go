package placement

// Slots returns how many more sessions with this request fit in the candidates, up to most.
// It is an estimate, not a guarantee: each may still use what another needs.
func Slots(req Request, candidates []Candidate, ledger *Ledger, most int64) int64 {
	q := newQuery(&req, ledger)
	if q.cap != nil {
		return 0
	}
	for _, c := range q.caps {
		most = min(most, int64(c.most)-int64(c.count))
	}
	slots := int64(0)
	for i := range candidates {
		if slots >= most {
			break
		}
		c := &candidates[i]
		a := ledger.read(i, c)
		if firstFailing(q, c, a) < 0 {
			slots += q.slotsIn(c, a)
		}
	}
	return min(slots, most)
}

// slotsIn returns how many sessions fit in a candidate that fits at least one.
func (q *query) slotsIn(c *Candidate, a *account) int64 {
	slots := q.usable(c, a)
	if c.SessionCap != nil {
		slots = min(slots, int64(*c.SessionCap)-int64(c.Sessions))
	}
	if q.Policy != nil && q.Policy.SessionCaps.PerCluster != nil {
		slots = min(slots, int64(*q.Policy.SessionCaps.PerCluster)-int64(q.Counts.Clusters[c.UID]))
	}
	return max(1, slots)
}
