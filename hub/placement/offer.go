package placement

// offer returns the kind of the slot that a candidate has for the request, and how many slots of
// that kind are left for such requests; none if the candidate has no slot.
func (q *query) offer(c *Candidate, a *account) (Kind, int64) {
	o := &q.offered
	if o.account != a {
		o.account = a
		o.kind, o.left = q.computeOffer(c, a)
	}
	return o.kind, o.left
}

func (q *query) computeOffer(c *Candidate, a *account) (Kind, int64) {
	known := a.evaluate(q.class)
	if known.growth == nil {
		return Free, q.left(c, a, known)
	}
	for kind, left := range q.byKind(c, a, known) {
		if left > 0 {
			return Kind(kind), left //nolint:gosec // there are three
		}
	}
	return Free, 0
}

// usable returns how many slots of any kind the request may use in a candidate.
func (q *query) usable(c *Candidate, a *account) int64 {
	known := a.evaluate(q.class)
	if known.growth == nil {
		return q.left(c, a, known)
	}
	by := q.byKind(c, a, known)
	return by[Free] + by[Provisioning] + by[Growable]
}

// byKind returns the slots of each kind that the request may use in a candidate whose node groups
// have some. Each outstanding reservation lands on one node of any kind, so the most that they can
// cost is deducted from all kinds together, from free slots first: they are used first. Headroom is
// deducted from those that are used last.
func (q *query) byKind(c *Candidate, a *account, known *evaluation) (by [kinds]int64) {
	slots := q.slots(c, a, known)
	reserved, left := known.total()-slots, max(0, q.lessHeadroom(c, slots))
	by = q.growthSlots(c, known.growth)
	by[Free] = known.slots
	sum, taken := int64(0), int64(0)
	for kind := range by {
		sum += by[kind]
		by[kind] = max(0, min(sum-reserved, left)-taken)
		taken += by[kind]
	}
	switch {
	case q.refusedFree(c):
		by[Free] = 0
	case q.isCurrent(c) && q.Current.UsesCapacity && left > 0 && by[Free] == 0:
		// Its own slot, whatever the others have reserved.
		by[Free]++
		if by[Provisioning] > 0 {
			by[Provisioning]--
		} else if by[Growable] > 0 {
			by[Growable]--
		}
	}
	return by
}

// growthSlots returns the slots of each kind, without free ones, of the groups that the request may use.
func (q *query) growthSlots(c *Candidate, g *growth) (slots [kinds]int64) {
	if q.FreeOnly || q.admitsFreeOnly(c) {
		return slots
	}
	return g.within(q.provisioningLimit)
}

// admitsFreeOnly reports whether every tier of the overflow that a candidate is in admits only free slots.
func (q *query) admitsFreeOnly(c *Candidate) bool {
	return q.freeTiers && q.tierOf(c, Growable) == len(q.overflow)
}

// left returns how many slots the request may use, of any kind, before the check for harm to
// outstanding reservations.
func (q *query) left(c *Candidate, a *account, known *evaluation) int64 {
	return q.lessHeadroom(c, q.slots(c, a, known))
}

// lessHeadroom returns how many of a candidate's slots the request may use.
func (q *query) lessHeadroom(c *Candidate, slots int64) int64 {
	if q.Failover {
		return slots
	}
	return slots - headroom(q.headroomPercent(c), q.sessions(c), slots)
}

// slots returns the slots of all kinds that no other session uses or has reserved.
func (q *query) slots(c *Candidate, a *account, known *evaluation) int64 {
	slots := a.slots(q.class, known)
	if q.isCurrent(c) && q.Current.UsesCapacity {
		slots += a.own(q.UID, q.class)
	}
	return slots
}

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
