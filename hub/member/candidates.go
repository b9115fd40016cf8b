package member

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// candidates returns all members as candidates, without their sessions. The caller holds the lock.
func (f *state) candidates(now time.Time) []placement.Candidate {
	if !f.listed {
		f.listed, f.all, f.settled = true, make([]placement.Candidate, len(f.ordered)), make([]time.Time, len(f.ordered))
		for i, m := range f.ordered {
			f.all[i], m.position = m.declared(), i
		}
	}
	for i, until := range f.settled {
		if !now.Before(until) {
			f.settled[i] = now.Add(f.observe(&f.all[i], f.ordered[i], now))
		}
	}
	return f.all
}

// candidatesOf returns some members as candidates. The caller holds the lock.
func (f *state) candidatesOf(members []types.UID, now time.Time) []placement.Candidate {
	clear(f.some) // so that it keeps no earlier reports in memory
	f.some = f.some[:0]
	for _, uid := range members {
		if m := f.uids[uid]; m != nil {
			f.some = append(f.some, m.declared())
			f.observe(&f.some[len(f.some)-1], m, now)
		}
	}
	return f.some
}

// declared returns a member as a candidate, as its MemberCluster declares it.
func (m *member) declared() placement.Candidate {
	return placement.Candidate{
		ClusterRef: v1alpha1.ClusterRef{Name: m.name, UID: m.uid}, Labels: m.labels, MemberClusterSpec: m.spec,
	}
}

// observe sets what the hub has observed of a candidate, and returns for how long that stays so
// unless the member changes; 0 if that is unknown.
func (f *state) observe(c *placement.Candidate, m *member, now time.Time) (settled time.Duration) {
	v := m.assess(f.timings, now)
	c.Ready, c.NotReady = m.accepts(v)
	c.Away = !c.Ready && (!m.removing || !m.serving)
	c.Capacity, c.ReportedAt = m.capacity, m.reportedAt
	if c.Ready {
		settled = v.Recheck
	}
	return settled
}

// causes are the explanations of causes other than missing heartbeats. None of them
// changes every second.
var causes = map[health.Cause]string{
	health.Stalled:     "its agent does not keep up",
	health.Recovering:  "its agent was lost and must be stable for a while first",
	health.Quarantined: "it is quarantined, since its agent was lost too often",
	health.Uncertain:   "its agent can't write to its API server",
	health.Revoked:     "its access is revoked",
	health.Fenced:      messageFenced,
}

// acceptsSessions reports whether the member accepts new sessions now, or why not.
func (m *member) acceptsSessions(t health.Timings, now time.Time) (bool, string) {
	return m.accepts(m.assess(t, now))
}

func (m *member) accepts(v health.Verdict) (bool, string) {
	switch {
	case m.removing:
		return false, "it is being removed"
	case m.fence.refusesAgent():
		return false, messageFenced
	case v.State == health.NeverConnected:
		return false, "its agent has never connected"
	case v.State != health.Ready && causes[v.Cause] != "":
		return false, causes[v.Cause]
	case v.State == health.Unreachable:
		return false, "it is unreachable"
	case v.State != health.Ready:
		return false, "its agent sends no heartbeats"
	case !m.serving || !m.cluster.Synced.Load():
		return false, "its agent is not connected"
	case m.capacity == nil || !m.fresh:
		return false, "its agent has not reported its capacity yet"
	}
	return true, ""
}

// evaluationWait is how long a session waits until the members have evaluated a template
// that is new to them. Without it the first member to report would get the first sessions,
// whatever regions they prefer.
const evaluationWait = 3 * time.Second

// Evaluating reports whether a member that accepts sessions has not reported yet whether it can
// run a template's revision. It is false once all have, or evaluationWait after the first call.
func (f *Registry) Evaluating(key placement.TemplateKey) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if !f.unevaluated(key, now) {
		delete(f.evaluating, key)
		return false
	}
	since, ok := f.evaluating[key]
	if !ok {
		f.evaluating[key], since = now, now
	}
	return now.Sub(since) < evaluationWait
}

func (f *state) unevaluated(key placement.TemplateKey, now time.Time) bool {
	if f.reported[key].evaluated == f.reporting {
		return false // only a member with a report accepts sessions
	}
	for _, m := range f.members {
		if ready, _ := m.acceptsSessions(f.timings, now); !ready {
			continue
		}
		if _, evaluated := m.capacity.Templates[key]; !evaluated {
			return true
		}
	}
	return false
}
