package placement

// headroom is how many slots of a member are kept free for failover, of those
// left: a percentage, rounded up, of the slots left and the sessions there, each
// of which is taken to hold one. It grows by at most one with each slot, so
// that more room never means less to use.
func headroom(percent int32, sessions, left int64) int64 {
	if percent <= 0 || left <= 0 {
		return 0
	}
	return ((left+sessions)*int64(percent) + 99) / 100
}

// headroomPercent is the larger of the member's and the policy's.
func (q *query) headroomPercent(c *Candidate) int32 {
	if q.Policy == nil {
		return c.HeadroomPercent
	}
	return max(c.HeadroomPercent, q.Policy.HeadroomPercent)
}
