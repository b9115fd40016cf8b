package member

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"k8s.io/apimachinery/pkg/types"
)

// Place places a session and reserves capacity for it under the epoch, in one step.
func (f *Reservations) Place(req placement.Request, epoch int64) placement.Decision {
	start := f.clock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replace(req.UID)
	if d, wait := f.awaitsReports(f.now()); wait {
		return d
	}
	putBack := f.counted(&req)
	d := placement.Place(req, f.candidates(), f.ledger)
	putBack()
	if d.Placed {
		f.ledger.ReserveFor(req.UID, epoch, d.Cluster.UID, req.Template, req.Resources)
		f.placed.decide(req.UID, owner{req.User, req.Namespace}, decision{epoch: epoch, member: d.Cluster.UID, policy: req.PolicyName})
	}
	placementSeconds.Observe(f.clock.Now().Sub(start).Seconds())
	return d
}

// Resume decides whether a session that is stopped in a member may run there again, under
// its current epoch and as its next run, and reserves capacity for it, in one step. away
// reports whether to wait for the member, which can't confirm anything now.
func (f *Reservations) Resume(req placement.Request, member v1alpha1.ClusterRef, epoch, run int64) (d placement.Decision, away bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replace(req.UID)
	if d, wait := f.awaitsReports(f.now()); wait {
		return d, false
	}
	m := f.uids[member.UID]
	if m == nil {
		return placement.Decision{Message: member.Name + " is no member of the fleet any more"}, true
	}
	c := f.candidate(m, f.now())
	c.SessionCap = nil // it counts in the member already
	putBack := f.ledger.SetAside(req.UID, member.UID)
	d = placement.Explain(req, []placement.Candidate{c}, f.ledger)
	putBack()
	if !d.Placed {
		d.Message = member.Name + " " + d.Verdicts[0].Message
		return d, !c.Ready && (!m.removing || !m.serving)
	}
	d.Message = member.Name + ": it was idle there, " + d.Verdicts[0].Message
	giveBack := f.ledger.ReserveAgain(req.UID, epoch, member.UID, req.Template, req.Resources)
	f.placed.decide(req.UID, owner{req.User, req.Namespace}, decision{epoch: epoch, run: run, member: member.UID, giveBack: giveBack})
	return d, false
}

// Ordered sets which assignment of a session's epoch the member is to have, by the hash
// that it acknowledges: no other acknowledgement counts the capacity that is reserved for a
// session that runs again.
func (f *Reservations) Ordered(session types.UID, epoch int64, member types.UID, hash string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ledger.Expect(session, epoch, member, hash)
	if m := f.uids[member]; m != nil {
		delete(m.withdrawals.held, session)
	}
}

// Reserve reserves capacity in a member for a run of a session that is already placed
// there, as after a restart.
func (f *Reservations) Reserve(session types.UID, epoch, run int64, member types.UID, template placement.TemplateKey, r placement.Resources) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if run > 1 {
		f.ledger.ReserveAgain(session, epoch, member, template, r)
		return
	}
	f.ledger.ReserveFor(session, epoch, member, template, r)
}

// Release releases the reservation of the last decision on a session, which was not
// written.
func (f *Reservations) Release(session types.UID) {
	f.mu.Lock()
	d, ok := f.takeBack(session)
	var changes []Change
	if m := f.uids[d.member]; ok && m != nil {
		changes = append(changes, m.change(MemberCapacity))
	}
	if d.added && d.policy != "" {
		changes = append(changes, Change{Kind: PolicyCapacity, Policy: d.policy})
	}
	f.mu.Unlock()
	f.notify(changes...)
}

// takeBack reverts a decision that the hub's cache has never shown; it returns false if
// there is none.
func (f *state) takeBack(session types.UID) (decision, bool) {
	d, ok := f.placed.undo(session)
	switch {
	case ok && d.again():
		d.giveBack()
	case ok:
		f.ledger.Release(session, d.epoch, d.member)
	}
	return d, ok
}

// replace does the same before another decision, and remembers the first one, which may
// have been written all the same: see correct.
func (f *state) replace(session types.UID) {
	if d, ok := f.takeBack(session); ok && !d.again() {
		f.placed.replaced[session] = d
	}
}

func (f *state) candidates() []placement.Candidate {
	now := f.now()
	out := make([]placement.Candidate, 0, len(f.members))
	for _, m := range f.members {
		out = append(out, f.candidate(m, now))
	}
	return out
}

func (f *state) candidate(m *member, now time.Time) placement.Candidate {
	ready, why := m.takesSessions(f.timings, now)
	c := placement.Candidate{
		Name:            m.name,
		UID:             m.uid,
		Region:          m.spec.Region,
		Zone:            m.spec.Zone,
		Labels:          m.labels,
		Taints:          m.spec.Taints,
		Scheduling:      m.spec.Scheduling,
		Weight:          100,
		SessionCap:      m.spec.SessionCap,
		HeadroomPercent: m.spec.HeadroomPercent,
		Ready:           ready,
		NotReady:        why,
		Sessions:        f.placed.count(m.uid),
		Capacity:        m.capacity,
	}
	if m.spec.Weight != nil {
		c.Weight = *m.spec.Weight
	}
	return c
}

// causes are the explanations of causes other than silence. None of them changes every
// second.
var causes = map[health.Cause]string{
	health.Stalled:     "its agent does not keep up",
	health.Recovering:  "its agent was lost and must be stable for a while first",
	health.Quarantined: "it is quarantined, for its agent was lost too often",
	health.Uncertain:   "its agent can't write to its API server",
	health.Revoked:     "its access is revoked",
	health.Fenced:      messageFenced,
}

// takesSessions reports whether the member accepts new sessions now, or why not.
func (m *member) takesSessions(t health.Timings, now time.Time) (bool, string) {
	switch v := m.assess(t, now); {
	case m.removing:
		return false, "it is being removed"
	case m.fence.bars():
		return false, messageFenced
	case v.State == health.NeverConnected:
		return false, "its agent has never connected"
	case v.State != health.Ready && causes[v.Cause] != "":
		return false, causes[v.Cause]
	case v.State == health.Unreachable:
		return false, "it is unreachable"
	case v.State != health.Ready:
		return false, "its agent has been silent for a while"
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

// Evaluating reports whether a member that accepts sessions has yet to report whether it
// can run a template's revision. It turns false when all have, or evaluationWait after the
// first call.
func (f *Reservations) Evaluating(key placement.TemplateKey) bool {
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

func (f *Reservations) unevaluated(key placement.TemplateKey, now time.Time) bool {
	for _, m := range f.members {
		if ready, _ := m.takesSessions(f.timings, now); !ready {
			continue
		}
		if _, judged := m.capacity.Templates[key]; !judged {
			return true
		}
	}
	return false
}
