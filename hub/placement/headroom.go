package placement

// headroom returns how many of a member's remaining slots are kept free for failover: a
// percentage, rounded up, of the slots left plus the sessions there, each of which counts
// as one slot. It grows by at most one with each slot, so that more capacity never leaves
// fewer usable slots.
func headroom(percent int32, sessions, left int64) int64 {
	if percent <= 0 || left <= 0 {
		return 0
	}
	return ((left+sessions)*int64(percent) + 99) / 100
}

// headroomPercent returns the larger of the member's and the policy's.
func (q *query) headroomPercent(c *Candidate) int32 {
	if q.Policy == nil {
		return c.HeadroomPercent
	}
	return max(c.HeadroomPercent, q.Policy.HeadroomPercent)
}
