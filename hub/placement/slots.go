package placement

// Slots returns how many more sessions with this request fit in the candidates, up to most.
// It is an estimate, not a guarantee: each may still use what another needs.
func Slots(req Request, candidates []Candidate, ledger *Ledger, most int64) int64 {
	q := newQuery(&req, ledger)
	if q.cap != nil {
		return 0
	}
	most = min(most, q.leftOfCaps(most))
	slots := int64(0)
	for i := range candidates {
		if slots >= most {
			break
		}
		c := &candidates[i]
		a := ledger.read(c)
		if firstFailing(q, c, a) < 0 {
			slots += q.slotsIn(c, a)
		}
	}
	return min(slots, most)
}

// leftOfCaps returns how many more sessions the policy's caps over all members allow.
func (q *query) leftOfCaps(most int64) int64 {
	if q.Policy == nil {
		return most
	}
	caps := &q.Policy.SessionCaps
	for _, c := range []struct {
		most  *int32
		count int32
	}{{caps.Total, q.Counts.Total}, {caps.PerNamespace, q.Counts.Namespace}, {caps.PerUser, q.Counts.User}} {
		if c.most != nil {
			most = min(most, int64(*c.most)-int64(c.count))
		}
	}
	return most
}

// slotsIn returns how many sessions fit in a candidate that fits at least one.
func (q *query) slotsIn(c *Candidate, a *account) int64 {
	slots := q.left(c, a)
	if c.SessionCap != nil {
		slots = min(slots, int64(*c.SessionCap)-int64(c.Sessions))
	}
	if q.Policy != nil && q.Policy.SessionCaps.PerCluster != nil {
		slots = min(slots, int64(*q.Policy.SessionCaps.PerCluster)-int64(q.Counts.Clusters[c.UID]))
	}
	return max(1, slots)
}
