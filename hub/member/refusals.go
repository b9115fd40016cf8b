package member

import (
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// outranked refuses an agent of a lower term than the last one that was admitted, while
// that one sends heartbeats.
//
// Later the lower one is admitted, which is safe: the term only distinguishes a member's
// agent from one that it has superseded. Certificates, and leader election among the
// member's agents, ensure that only one acts for the member. Otherwise the hub would refuse
// two kinds of members until its next leader: those whose etcd, which stores their terms, was
// restored from a backup, and those for which a process that once had their certificate sent
// a far higher term.
func (m *member) outranked(t health.Timings, term int64, now time.Time) error {
	if term < m.term && m.heartbeats.Silence(now) < t.Unreachable {
		return fmt.Errorf("%w: this one is of term %d, that one of %d, and sent its last heartbeat %s ago",
			link.ErrStaleAgent, term, m.term, m.heartbeats.Silence(now).Round(time.Second))
	}
	return nil
}

// yields reports whether an agent of a term replaces the one that is connected and renews.
// The connected one has reported that it can't renew its lock among the agent's replicas;
// the replica that took the lock since has a later term. A clone of the member's cluster
// can't do that: the member's own agent is certain.
func (m *member) yields(term int64) bool {
	return m.uncertain && term > m.term
}

// succeeded records, for an event, that an agent of a lower term is admitted.
func (m *member) succeeded(term int64) {
	if term < m.term {
		m.lowered = fmt.Sprintf("an agent of term %d was admitted after one of term %d, which sends no heartbeats: the member was restored from a backup, or the term was never its own", term, m.term)
	}
}

// refuseExcess refuses an agent whose last stream ended recently because it reported too
// much: its reports are read again only at intervals.
func (m *member) refuseExcess(t health.Timings, now time.Time) error {
	if m.exceeded == "" || now.Sub(m.exceededAt) >= t.Suspect {
		return nil
	}
	return fmt.Errorf("%w, and is admitted again after %s", protocol.ErrExcess, t.Suspect)
}

// excessShownFor returns for how much longer the status shows that a member's agent
// reported too much.
func (c *connectionHistory) excessShownFor(t health.Timings, now time.Time) time.Duration {
	if c.exceeded == "" {
		return 0
	}
	return max(0, t.Recovery-now.Sub(c.exceededAt))
}

// popEvents returns and clears the messages of events to record for a member: for a lower
// term of its agent, and for an agent that reported too much, once for each new reason.
func (f *Registry) popEvents(name string) (lowered, exceeded string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[name]
	if m == nil {
		return "", ""
	}
	lowered, m.lowered = m.lowered, ""
	if m.excessShownFor(f.timings, f.now()) == 0 {
		m.exceeded, m.exceededAnnounced = "", ""
	}
	if m.exceeded != m.exceededAnnounced {
		exceeded, m.exceededAnnounced = m.exceeded, m.exceeded
	}
	return lowered, exceeded
}
