package member

import "time"

// While no member outside the hub's own cluster is heard of, the hub takes itself for
// the one that is cut off, and moves nothing by time. What it did not hear meanwhile
// it can't hold against anybody: a member that is well needs up to half a minute to
// connect again, and one may do so sooner than another.

// outageEnds is called before a member is heard of. If none was until now, each of
// the others that fell silent together with the last of them gets its full time
// again, as if it had been heard of now. For one that was silent before, the outage
// does not count: a member that is well again and again can't keep the sessions of
// one that is lost from being placed elsewhere. The caller holds the lock.
func (f *Directory) outageEnds(m *member, now time.Time) {
	if f.inHubCluster(m) || !m.heartbeats.Silent(f.timings, now) {
		return
	}
	var last time.Time
	var lost []*member
	for _, o := range f.members {
		if !o.witness(now) || f.inHubCluster(o) {
			continue
		}
		if !o.heartbeats.Silent(f.timings, now) {
			return
		}
		if at := o.heartbeats.LastWell(); at.After(last) {
			last = at
		}
		if o != m {
			lost = append(lost, o)
		}
	}
	outage := now.Sub(last)
	if last.IsZero() || outage < f.timings.Suspect {
		return
	}
	for _, o := range lost {
		if last.Sub(o.heartbeats.LastWell()) < f.timings.Suspect {
			o.heartbeats.DelayLoss(now.Add(f.timings.Unreachable))
		} else {
			o.heartbeats.DelayLoss(o.heartbeats.LossAt(f.timings).Add(outage))
		}
	}
}

// witness reports whether a member's silence says anything of the hub's network: an
// operator has not taken it out, and it has connected before.
func (m *member) witness(now time.Time) bool {
	return m.heartbeats.EverConnected() && !m.revoked && !m.fence.holds(now)
}
