package placement

// headroom is how many slots a member keeps free for failover, of those left:
// its percentage, rounded up, of the slots left and the sessions there, each
// of which is taken to hold one. It grows by at most one with each slot, so
// that more room never means less to use.
func (c *Candidate) headroom(left int64) int64 {
	if c.HeadroomPercent <= 0 || left <= 0 {
		return 0
	}
	total := left + int64(max(c.Sessions, 0))
	return (total*int64(c.HeadroomPercent) + 99) / 100
}
