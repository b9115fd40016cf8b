package member

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/cluster"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// member is what the hub knows of one member. The fleet's lock guards all but the
// cache, which has its own.
type member struct {
	name string
	uid  types.UID
	object
	agent
	drain      draining
	fence      fence
	heartbeats health.Tracker
	connectionHistory
	// withdrawals without a durable cause.
	withdrawals withdrawals
	// shown is the health that listeners were last notified of.
	shown health.State
	// peer is the open connection, nil while the member is away.
	peer link.Peer
	// serving: the inventory of this connection is in.
	serving bool
	// reported: an inventory and a capacity report were in once, on this hub.
	reported bool
	reportedCapacity
	// reportedAt is when the last capacity report came.
	reportedAt time.Time
	// agreement is whether both sides agree on what the member holds, by the
	// digests on its renewals; empty while that is not known.
	agreement protocol.Agreement
	// applying is held while a connection changes the cache or reads capacity;
	// the fleet's lock is taken under it, never the other way round.
	applying sync.Mutex
	// cluster of the member, with the cache of what its agent reports.
	cluster *cluster.Member
}

// object is what a member's MemberCluster declares.
type object struct {
	// version is the resourceVersion that was adopted last, at adopted.
	version    string
	adopted    time.Time
	generation int64
	labels     map[string]string
	spec       v1alpha1.MemberClusterSpec
	// removing: it is being deleted.
	removing bool
	// revoked by an operator; serials of the certificates that the member may use, nil
	// where the hub does not issue them.
	revoked bool
	serials []string
}

// agent is what a member's agent said when it was let in last.
type agent struct {
	fingerprint  string
	agentVersion string
	// restrictions that the agent reports; nil: none, or it has not connected.
	restrictions *v1alpha1.MemberRestrictions
	instance     string
	// term of the agent's process: see outranked. lowered says that it was lower than
	// the one before, for an event.
	term    int64
	lowered string
}

// change of the member.
func (m *member) change(kind ChangeKind) Change {
	return Change{Kind: kind, Member: m.name, UID: m.uid}
}

func newMember(mc *v1alpha1.MemberCluster, began time.Time) *member {
	return &member{
		name:              mc.Name,
		uid:               mc.UID,
		agent:             agent{fingerprint: mc.Status.Fingerprint},
		connectionHistory: connectionHistory{lastHeartbeat: lostBefore(mc)},
		heartbeats:        health.NewTracker(everConnected(mc), began),
	}
}

func (m *member) adopt(mc *v1alpha1.MemberCluster) {
	m.generation = mc.Generation
	m.removing = !mc.DeletionTimestamp.IsZero()
	m.labels = mc.Labels
	m.spec = *mc.Spec.DeepCopy()
	m.drain.adopt(mc)
	m.revoked = mc.Spec.Access == v1alpha1.AccessRevoked
	m.serials = nil
	if c := mc.Status.Certificate; c != nil {
		m.serials = c.Serials()
	}
}

// clusterRegistry is what the fleet knows of one member (cluster.Registry).
type clusterRegistry struct {
	fleet  *state
	member *member
}

var _ cluster.Registry = clusterRegistry{}

// Available reports whether the member is connected and not Unreachable.
func (r clusterRegistry) Available() bool {
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	return r.member.serving && r.member.assess(r.fleet.timings, r.fleet.now()).State != health.Unreachable
}

// Send puts an order in the outbox of the open connection.
func (r clusterRegistry) Send(order protocol.Order) error {
	r.fleet.mu.Lock()
	peer := r.member.peer
	if !r.member.serving {
		peer = nil
	}
	r.fleet.mu.Unlock()
	if peer == nil {
		return multicluster.ErrClusterNotFound
	}
	peer.Put(order)
	return nil
}

// Engaged announces that orders flow.
func (r clusterRegistry) Engaged() {
	r.fleet.notify(r.member.change(MemberConnected))
}

// Placed reports of a session whether it is placed in the member or not confirmed
// stopped there, by the hub's own account.
func (r clusterRegistry) Placed(session types.UID) bool {
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	_, placed := r.fleet.placed.sessions[r.member.uid][session]
	return placed
}

// Knows reports whether a session is placed in the member, or the proof says that it
// was.
func (r clusterRegistry) Knows(session types.UID, epoch int64, proof string) bool {
	return r.Placed(session) || proof != "" && r.fleet.proven != nil && r.fleet.proven(r.member.uid, session, epoch, proof)
}
