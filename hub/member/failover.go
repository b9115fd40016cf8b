package member

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// Lost says whether a session's member is lost, and if so whether the session may
// be placed anew, or when to look again. No room is asked for.
func (f *Failovers) Lost(ask failover.Session, from types.UID) failover.Verdict {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost(ask, from, f.look())
}

// Failover decides where a session goes whose member is lost, and reserves room
// there under the epoch, in one step. Where the decision is not Placed, the verdict
// says why: it is not due; or it is, and Wait is its turn, for no more are placed
// at a time; or there is no Wait, and the decision says what room it lacks.
func (f *Failovers) Failover(req placement.Request, ask failover.Session, from types.UID, epoch int64) (placement.Decision, failover.Verdict) {
	start := f.clock.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replace(req.UID)
	now := f.look()
	v := f.lost(ask, from, now)
	if !v.Due {
		return pending(v), v
	}
	if d, wait := f.awaitsReports(now); wait {
		v.Wait = f.recovery.until.Sub(now)
		return d, v
	}
	mass := f.mass(v, now)
	if v.Wait = f.brake.Fleet(req.UID, mass, now); v.Wait > 0 {
		return braked(v, mass)
	}
	req.Failover, req.Refused = true, maps.Clone(req.Refused)
	if req.Refused == nil {
		req.Refused = map[types.UID]string{}
	}
	req.Refused[from] = "it is lost"
	putBack := f.counted(&req)
	d := placement.Place(req, f.candidates(), f.ledger)
	putBack()
	if !d.Placed {
		f.brake.Leave(req.UID)
		return d, v
	}
	if v.Wait = f.brake.Target(req.UID, d.Cluster.UID, mass, now); v.Wait > 0 {
		return braked(v, mass)
	}
	f.brake.Pass(req.UID, d.Cluster.UID)
	f.ledger.ReserveFor(req.UID, epoch, d.Cluster.UID, req.Template, req.Resources)
	f.placed.decide(req.UID, owner{req.User, req.Namespace}, decision{epoch: epoch, member: d.Cluster.UID, policy: req.PolicyName})
	placementSeconds.Observe(f.clock.Now().Sub(start).Seconds())
	return d, v
}

// LostSince is when a member was last heard of, by the hub's clock. Where nobody
// knows it is when this hub began to lead.
func (f *Failovers) LostSince(member types.UID) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	heard := f.removed[member]
	if m := f.uids[member]; m != nil {
		heard = m.lastHeard
	}
	if heard.IsZero() {
		return f.began
	}
	return heard
}

// Gone is whether a member was removed from the fleet for good: nobody will ever
// confirm that anything stopped there.
func (f *Failovers) Gone(member types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gone(member, f.look())
}

// gone is certain of members that this hub saw removed. Of others it may not have
// been told yet, as long as it has not led for a while.
func (f *state) gone(member types.UID, now time.Time) bool {
	if f.uids[member] != nil {
		return false
	}
	_, removed := f.removed[member]
	return removed || !f.began.IsZero() && now.Sub(f.ledSince) >= f.timings.Failover.Regain
}

// lost is what Lost says. The caller holds the lock.
func (f *Failovers) lost(ask failover.Session, from types.UID, now time.Time) failover.Verdict {
	m := f.uids[from]
	if m == nil && !f.gone(from, now) {
		wait := f.timings.Failover.Regain
		if !f.began.IsZero() {
			wait = f.ledSince.Add(wait).Sub(now)
		}
		return failover.Verdict{
			Wait: wait, Reason: v1alpha1.ReasonMemberUnreachable,
			Message: "its member is not known to this hub, which has just begun to lead",
		}
	}
	facts, fleet := f.factsOf(m, now), failover.Fleet{Now: now, LedSince: f.ledSince}
	// Of each that is placed it is asked at every turn: all others are only looked
	// at where that matters.
	if facts.Unreachable {
		fleet.CutOff = f.stands(now).cutOff
	}
	return failover.Judge(f.timings.Failover, ask, facts, fleet)
}

// factsOf a member; nil: it was removed.
func (f *Failovers) factsOf(m *member, now time.Time) failover.Member {
	if m == nil {
		return failover.Member{Removed: true}
	}
	facts := failover.Member{
		Name: m.name, Fenced: m.fence.holds(now), HeardAt: m.lastHeard, GrantedAt: f.began,
		Unreachable: m.assess(f.timings, now).State == health.Unreachable,
		LostAt:      m.heartbeats.LossAt(f.timings),
	}
	if m.lastGrant.After(facts.GrantedAt) {
		facts.GrantedAt = m.lastGrant
	}
	if !m.revokedAt.IsZero() {
		facts.LostAt = m.revokedAt
	}
	return facts
}

// standing is how the fleet is as a whole, as far as failover asks.
type standing struct {
	// cutOff: no member outside the hub's own cluster is heard of. mass: so many
	// members are gone that sessions are placed anew more slowly.
	cutOff, mass bool
}

// stands leaves aside members that an operator has taken out: they say nothing of
// what has happened to the others.
func (f *state) stands(now time.Time) standing {
	members, gone, others, heard := 0, 0, 0, 0
	for _, m := range f.members {
		if !m.witness(now) {
			continue
		}
		members++
		gone += count(m.assess(f.timings, now).State == health.Unreachable)
		if !f.inHubCluster(m) {
			others++
			heard += count(!m.heartbeats.Silent(f.timings, now))
		}
	}
	return standing{cutOff: others > 0 && heard == 0, mass: failover.Mass(gone, members)}
}

// shift says what listeners are told when the fleet stands otherwise than before:
// the sessions of every member that is lost are looked at anew.
func (f *state) shift(now time.Time) []Change {
	before := f.standing
	if f.standing = f.stands(now); f.standing == before {
		return nil
	}
	var changes []Change
	for _, m := range f.members {
		if m.assess(f.timings, now).State == health.Unreachable {
			changes = append(changes, Change{Kind: MemberChanged, Member: m.name, UID: m.uid})
		}
	}
	return changes
}

// mass is whether a session is placed anew at the lower rates. An operator's word
// is no matter of how many are gone.
func (f *Failovers) mass(v failover.Verdict, now time.Time) bool {
	return v.Reason == v1alpha1.ReasonMemberUnreachable && f.stands(now).mass
}

// HubCluster tells the fleet the fingerprint of the cluster that the hub runs in.
func (f *Registry) HubCluster(fingerprint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hubCluster = fingerprint
}

func (f *state) inHubCluster(m *member) bool {
	return f.hubCluster != "" && m.fingerprint == f.hubCluster
}

func pending(v failover.Verdict) placement.Decision {
	return placement.Decision{Reason: v1alpha1.ReasonFailoverPending, Message: v.Message}
}

func braked(v failover.Verdict, mass bool) (placement.Decision, failover.Verdict) {
	v.Message += ": it waits for its turn, since sessions of members that are lost are placed anew a few at a time"
	if mass {
		v.Message += ", and only one or two a second while most members are gone"
	}
	return pending(v), v
}

// lostBefore is when a member fell that was not ready when this hub began to lead,
// as its status has it; zero: it was ready.
func lostBefore(mc *v1alpha1.MemberCluster) time.Time {
	c := meta.FindStatusCondition(mc.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status == metav1.ConditionTrue {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}
