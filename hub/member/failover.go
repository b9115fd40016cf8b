package member

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// State is the state of a member on which decisions on its sessions depend.
type State struct {
	// Spec of its MemberCluster, which must not be changed. Known is set if it is a member.
	Spec  v1alpha1.MemberClusterSpec
	Known bool
	// Health of it; one that is no longer a member is Unreachable.
	Health health.State
	// Gone is set if it was removed from the fleet permanently.
	Gone bool
	// LastHeartbeat of it by the hub's clock, or when this hub began to lead if that is
	// unknown.
	LastHeartbeat time.Time
	// ReportedAt is when its last capacity report arrived; zero before the first one.
	ReportedAt time.Time
	// Drain of it; nil if there is none, or its start is not durable yet.
	Drain *Drain
	// Failover decides whether its sessions may be rescheduled; nil in the zero value.
	Failover failover.Decider
}

// State returns the state of a member.
func (f *Registry) State(uid types.UID) State {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	s := State{Health: health.Unreachable, Gone: f.gone(uid, now), LastHeartbeat: f.removed[uid], Failover: f.factsOf(uid, now)}
	if m := f.uids[uid]; m != nil {
		s.Spec, s.Known, s.Health, s.LastHeartbeat = m.spec, true, m.assess(f.timings, now).State, m.lastHeartbeat
		s.ReportedAt, s.Drain = m.reportedAt, m.requestedDrain()
	}
	if s.LastHeartbeat.IsZero() {
		s.LastHeartbeat = f.began
	}
	return s
}

// FailoverOf returns the failover decisions on a member's sessions.
func (f *Registry) FailoverOf(member types.UID) failover.Decider { return f.State(member).Failover }

// ReportedAt returns when a member's last capacity report arrived.
func (f *Registry) ReportedAt(member types.UID) time.Time { return f.State(member).ReportedAt }

// Gone reports whether a member was removed from the fleet permanently: no agent will ever
// confirm that anything stopped there.
func (f *Registry) Gone(member types.UID) bool { return f.State(member).Gone }

// gone reports whether a member was removed permanently. Unless it was removed while this hub
// led, that is certain only after the hub has led for a while: its cache may lag until then.
func (f *state) gone(member types.UID, now time.Time) bool {
	if f.uids[member] != nil {
		return false
	}
	_, removed := f.removed[member]
	return removed || !f.began.IsZero() && now.Sub(f.ledSince) >= f.timings.Failover.Regain
}

// factsOf returns what the failover of a member's sessions depends on. The caller holds the lock.
func (f *state) factsOf(uid types.UID, now time.Time) failover.Facts {
	facts := failover.Facts{Timings: f.timings.Failover, Fleet: failover.Fleet{Now: now, LedSince: f.ledSince}}
	m := f.uids[uid]
	if m == nil {
		facts.Member.Removed = f.gone(uid, now)
		facts.Member.Unknown = !facts.Member.Removed
		if f.began.IsZero() {
			facts.Fleet.LedSince = now
		}
		return facts
	}
	facts.Member = failover.Member{
		Name: m.name, Fenced: m.fence.inEffect(now), LastHeartbeat: m.lastHeartbeat, GrantedAt: failover.Later(m.lastGrant, f.began),
		Unreachable: m.assess(f.timings, now).State == health.Unreachable,
		LostAt:      m.heartbeats.LossAt(f.timings),
	}
	if !m.revokedAt.IsZero() {
		facts.Member.LostAt = m.revokedAt
	}
	// This runs for every placed session: the other members are only examined if they
	// matter.
	if facts.Member.Unreachable {
		facts.Fleet.Degradation = f.recentDegradation(now)
	}
	return facts
}

// degradationAge is how old a degradation may be that a decision depends on, or of which listeners
// are notified. Computing it examines all members, a lost region has thousands of sessions, and
// every member is checked several times a minute.
const degradationAge = 100 * time.Millisecond

// recentDegradation returns the degradation, computed again after degradationAge, and when
// anything but time has changed it. The caller holds the lock.
func (f *state) recentDegradation(now time.Time) failover.Degradation {
	if age := now.Sub(f.recent.at); f.recent.at.IsZero() || age < 0 || age >= degradationAge {
		f.recent = recentDegradation{at: now, Degradation: f.degradation(now)}
	}
	return f.recent.Degradation
}

// recentDegradation is a computed degradation.
type recentDegradation struct {
	// at is when it was computed; zero if it is outdated.
	at time.Time
	failover.Degradation
}

// degradation returns the degradation without members that are not witnesses: their missing
// heartbeats are no evidence about the others.
func (f *state) degradation(now time.Time) failover.Degradation {
	members, gone, others, healthy := 0, 0, 0, 0
	for _, m := range f.members {
		if !m.witness(now) {
			continue
		}
		members++
		gone += count(m.assess(f.timings, now).State == health.Unreachable)
		if !f.inHubCluster(m) {
			others++
			healthy += count(!m.heartbeats.Silent(f.timings, now))
		}
	}
	return failover.Degradation{CutOff: others > 0 && healthy == 0, MassFailure: failover.IsMassFailure(gone, members)}
}

// degradationChanges returns the notifications for a change of the degradation: the sessions
// of every lost member are evaluated again.
func (f *state) degradationChanges(now time.Time) []Change {
	before := f.degraded
	if f.degraded = f.recentDegradation(now); f.degraded == before {
		return nil
	}
	var changes []Change
	for _, m := range f.members {
		if m.assess(f.timings, now).State == health.Unreachable {
			changes = append(changes, m.change(MemberChanged))
		}
	}
	return changes
}

// HubCluster sets the fingerprint of the cluster that the hub runs in.
func (f *Registry) HubCluster(fingerprint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hubCluster, f.recent = fingerprint, recentDegradation{}
}

func (f *state) inHubCluster(m *member) bool {
	return f.hubCluster != "" && m.fingerprint == f.hubCluster
}

// lostBefore returns when a member lost readiness before this hub began to lead, according
// to its status, or zero if it was ready.
func lostBefore(mc *v1alpha1.MemberCluster) time.Time {
	c := meta.FindStatusCondition(mc.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status == metav1.ConditionTrue {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}

// While no member outside the hub's own cluster sends heartbeats, the hub assumes that it
// is the one that is cut off, and moves nothing by time. Heartbeats that it missed
// meanwhile count against no member: a healthy member needs up to half a minute to connect
// again, and one may do so sooner than another.

// outageEnds is called before a heartbeat of a member is recorded. If it is the first after
// an outage, each other member whose heartbeats ended when the outage began gets its full
// time again, as if it had just sent one. For a member that was lost before, only the outage
// does not count: a member that recovers again and again can't prevent the failover of a
// lost one. The caller holds the lock.
func (f *Directory) outageEnds(m *member, now time.Time) {
	if !m.heartbeats.Silent(f.timings, now) {
		return
	}
	f.recent = recentDegradation{}
	if f.inHubCluster(m) {
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
		last = failover.Later(o.heartbeats.LastHealthy(), last)
		if o != m {
			lost = append(lost, o)
		}
	}
	outage := now.Sub(last)
	if last.IsZero() || outage < f.timings.Suspect {
		return
	}
	for _, o := range lost {
		if last.Sub(o.heartbeats.LastHealthy()) < f.timings.Suspect {
			o.heartbeats.DelayLoss(now.Add(f.timings.Unreachable))
		} else {
			o.heartbeats.DelayLoss(o.heartbeats.LossAt(f.timings).Add(outage))
		}
	}
}

// witness reports whether a member's missing heartbeats are evidence about the hub's network:
// it has connected before, and an operator has neither revoked it nor declared it fenced.
func (m *member) witness(now time.Time) bool {
	return m.heartbeats.EverConnected() && !m.revoked && !m.fence.inEffect(now)
}
