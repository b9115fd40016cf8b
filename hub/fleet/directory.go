package fleet

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

var errRemoved = errors.New("the member was removed from the fleet")

var _ link.Directory = &Fleet{}

// Open admits the connection of a member's agent (link.Directory).
//
// Of two agents with one identity the incumbent stays, as long as it renews:
// it is only replaced by itself, or after it has fallen silent.
func (f *Fleet) Open(ctx context.Context, uid types.UID, hello link.Hello, peer link.Peer) (link.Member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.uids[uid]
	if m == nil {
		return nil, link.ErrUnknownMember
	}
	if m.fingerprint != "" && m.fingerprint != hello.Fingerprint {
		return nil, fmt.Errorf("%w: %s was %s, the agent speaks for %s", link.ErrFingerprint, m.name, m.fingerprint, hello.Fingerprint)
	}
	if hello.AgentTerm < m.term {
		return nil, fmt.Errorf("%w: this one is of term %d, that one of %d", link.ErrStaleAgent, hello.AgentTerm, m.term)
	}
	if m.peer != nil {
		if m.instance != hello.Instance && f.clock.Now().Sub(m.heard) < f.timings.Suspect {
			return nil, link.ErrAlreadyConnected
		}
		m.peer.Close(errors.New("replaced by a newer connection"))
	}
	if m.instance != hello.Instance {
		f.ledger.Reset(m.uid)
		m.capacity = nil
	}
	m.peer, m.serving, m.fresh = peer, false, false
	m.instance, m.agentVersion, m.term = hello.Instance, hello.AgentVersion, hello.AgentTerm
	m.fingerprint = hello.Fingerprint
	f.heardFrom(m)
	peer.SetTemplates(f.templates)
	log.FromContext(ctx).Info("Agent connected", "cluster", m.name, "agentVersion", m.agentVersion, "instance", m.instance)
	return &connection{fleet: f, member: m, peer: peer}, nil
}

// Renew records a sign of life of a member's agent (link.Directory). One that
// is not the connected one is told so: it must connect first.
func (f *Fleet) Renew(uid types.UID, renewal link.Renewal) (link.Grant, error) {
	f.mu.Lock()
	m := f.uids[uid]
	if m == nil {
		f.mu.Unlock()
		return link.Grant{}, link.ErrUnknownMember
	}
	switch m.instance {
	case renewal.Instance:
	case "":
		f.mu.Unlock()
		return link.Grant{}, link.ErrNotConnected
	default:
		f.mu.Unlock()
		return link.Grant{}, link.ErrAlreadyConnected
	}
	before, _ := judge(f.timings, m.signs, f.clock.Now())
	f.heardFrom(m)
	back := before == HealthUnreachable && m.serving && m.synced
	f.mu.Unlock()
	if before != HealthReady {
		f.tell(Change{Kind: MemberChanged, Member: m.name, UID: m.uid})
	}
	if back {
		f.tell(Change{Kind: MemberConnected, Member: m.name, UID: m.uid})
	}
	return link.Grant{Lease: f.timings.Lease}, nil
}

func (f *Fleet) heardFrom(m *member) {
	m.heard, m.heardHere, m.ever = f.clock.Now(), true, true
}

// Standing is what bears on what a member's agent may do (link.Directory).
func (f *Fleet) Standing(uid types.UID) (link.Standing, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.uids[uid]
	if m == nil {
		return link.Standing{}, false
	}
	return link.Standing{Removing: m.removing, Revoked: m.revoked, Serials: m.serials}, true
}
