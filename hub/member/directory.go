package member

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/version"
)

var errRemoved = errors.New("the member was removed from the fleet")

// Directory admits the connections of the members' agents (link.Directory).
type Directory struct{ *state }

var _ link.Directory = &Directory{}

// Open admits the connection of a member's agent (link.Directory).
//
// A connected agent that renews is replaced only by the same instance, or, while it reports
// that its leadership is uncertain, by an agent with a higher term. After its heartbeats have
// stopped, another agent with its identity may replace it.
//
// The agent of a member that is declared fenced is admitted once the API server has stored
// that the declaration is removed.
func (f *Directory) Open(ctx context.Context, uid types.UID, hello *fleetv1.Hello, peer link.Peer) (link.Member, error) {
	m, err := f.open(ctx, uid, hello, peer)
	if errors.Is(err, link.ErrFenced) && f.unfenced(ctx, uid) {
		return f.open(ctx, uid, hello, peer)
	}
	return m, err
}

func (f *Directory) open(ctx context.Context, uid types.UID, hello *fleetv1.Hello, peer link.Peer) (link.Member, error) {
	f.mu.Lock()
	m := f.uids[uid]
	if m == nil {
		f.mu.Unlock()
		return nil, link.ErrUnknownMember
	}
	now := f.now()
	before, otherCluster, term, alive, instance := m.assess(f.timings, now), m.otherCluster, m.term, m.fence.alive, m.instance
	err := f.admit(m, hello, peer, now)
	after, restarted := m.assess(f.timings, now), err == nil && m.instance != instance
	lowered := m.term < term
	f.unsettle(m)
	changed := !before.Same(after) || otherCluster != m.otherCluster || lowered || alive != m.fence.alive
	f.mu.Unlock()
	if restarted {
		// After all reports of the previous connection, and before any report of this one.
		m.applying.Lock()
		f.cache.Restarted(uid)
		m.applying.Unlock()
	}
	if changed {
		f.notify(m.change(MemberChanged))
	}
	if err != nil {
		return nil, err
	}
	if lowered {
		log.FromContext(ctx).Info("An older agent was admitted: its cluster may have been restored from a backup", "member", m.name, "agentTerm", hello.AgentTerm, "before", term)
	}
	log.FromContext(ctx).Info("Agent connected", "member", m.name, "agentVersion", hello.AgentVersion, "instance", hello.Instance)
	return &connection{fleet: f.state, member: m, peer: peer}, nil
}

// admit makes a connection the member's, or returns an error. The caller holds the lock.
func (f *Directory) admit(m *member, hello *fleetv1.Hello, peer link.Peer, now time.Time) error {
	if m.revoked {
		return link.ErrRevoked
	}
	if m.fingerprint != "" && m.fingerprint != hello.Fingerprint {
		if m.peer == nil {
			m.otherCluster = bounded(hello.Fingerprint)
		}
		return fmt.Errorf("%w: %s was %s, the agent runs in %s; create a new MemberCluster for it", link.ErrFingerprint, m.name, m.fingerprint, bounded(hello.Fingerprint))
	}
	if m.fence.refusesAgent() {
		f.outageEnds(m, now)
		return m.refuseFenced(f.timings, now)
	}
	if err := m.refuseExcess(f.timings, now); err != nil {
		return err
	}
	if err := m.outranked(f.timings, hello.AgentTerm, now); err != nil {
		return err
	}
	if m.peer != nil {
		if m.instance != hello.Instance && m.heartbeats.Silence(now) < f.timings.Suspect && !m.yields(hello.AgentTerm) {
			return link.ErrAlreadyConnected
		}
		m.peer.Close(errors.New("replaced by a newer connection"))
	}
	again := m.instance == hello.Instance
	if !again {
		f.setCapacity(m, nil)
	}
	m.peer, m.serving, m.fresh = peer, false, false
	m.succeeded(hello.AgentTerm)
	f.outageEnds(m, now)
	m.instance, m.agentVersion, m.term = hello.Instance, hello.AgentVersion, hello.AgentTerm
	m.fingerprint, m.restrictions = hello.Fingerprint, protocol.Restrictions(hello.Restrictions)
	m.hasDoor = slices.Contains(hello.Capabilities, version.Door)
	m.began(f.timings, now)
	f.openTemplates(m, again)
	m.sendDoor(f.door)
	return nil
}

// Refused records for the status that an agent's protocol is incompatible (link.Directory).
func (f *Directory) Refused(uid types.UID, reason error) {
	f.edit(uid, MemberChanged, func(m *member) bool { return m.recordIncompatible(f.timings, reason, f.now()) })
}

// RenewInterval returns how often an agent that connects now renews its lease.
func (f *Directory) RenewInterval() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.timings.RenewInterval(len(f.uids))
}

// Renew records a heartbeat of a member's agent (link.Directory). An agent that is not
// connected is refused: it must connect first.
func (f *Directory) Renew(uid types.UID, renewal link.Renewal) (lease time.Duration, err error) {
	f.mu.Lock()
	changes, err := f.renew(f.uids[uid], renewal)
	f.mu.Unlock()
	f.notify(changes...)
	if err != nil {
		return 0, err
	}
	return f.timings.Failover.Lease, nil
}

// renew records a renewal, or returns an error if it is refused. The caller holds the lock.
func (f *Directory) renew(m *member, renewal link.Renewal) (changes []Change, err error) {
	switch {
	case m == nil:
		return nil, link.ErrUnknownMember
	case m.revoked:
		return nil, link.ErrRevoked
	case m.instance == renewal.Instance:
	case m.instance == "":
		return nil, link.ErrNotConnected
	default:
		return nil, link.ErrAlreadyConnected
	}
	now := f.now()
	if m.fence.refusesAgent() {
		f.outageEnds(m, now)
		return []Change{m.change(MemberChanged)}, m.refuseFenced(f.timings, now)
	}
	before := m.assess(f.timings, now)
	m.uncertain = renewal.LeadershipUncertain
	f.outageEnds(m, now)
	m.heartbeats.Renewed(f.timings, now)
	m.grant(now)
	if !before.Same(m.assess(f.timings, now)) {
		f.unsettle(m)
		changes = append(changes, m.change(MemberChanged))
	}
	if before.State == health.Unreachable && m.serving && m.cluster.Synced.Load() {
		changes = append(changes, m.change(MemberConnected))
	}
	return changes, nil
}

// Access returns the state that decides what a member's agent may do (link.Directory).
func (f *Directory) Access(uid types.UID) (link.Access, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.uids[uid]
	if m == nil {
		return link.Access{}, false
	}
	return link.Access{Removing: m.removing, Revoked: m.revoked, Serials: m.serials}, true
}
