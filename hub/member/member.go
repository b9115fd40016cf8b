package member

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/member/cluster"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// member is what the hub knows of one member. The fleet's lock guards all but
// the cache, which has its own.
type member struct {
	name       string
	uid        types.UID
	generation int64
	// removing: its MemberCluster is being deleted.
	removing bool
	// revoked by an operator; serials of the certificates that it may use, nil
	// where the hub does not issue them.
	revoked bool
	serials []string
	labels  map[string]string
	spec    v1alpha1.MemberClusterSpec

	fingerprint  string
	agentVersion string
	// restrictions that the agent reports; nil: none.
	restrictions *v1alpha1.MemberRestrictions

	drain draining

	heartbeats health.Tracker
	contact
	fence fence
	// withdrawals without a durable cause.
	withdrawals withdrawals
	// version is the resourceVersion that was adopted last, at adopted.
	version string
	adopted time.Time
	// shown is the health that listeners were last told of.
	shown health.State
	// peer is the open connection, nil while the member is away.
	peer     link.Peer
	instance string
	// term is that of the agent's process that was let in last: see outranked.
	// lowered says that it was lower than the one before, for an event.
	term    int64
	lowered string
	// serving: the inventory of this connection is in. fresh: so is a capacity
	// report, which counts all of that inventory.
	serving, fresh bool
	// reported: an inventory and a capacity report were in once, on this hub.
	reported bool
	capacity *placement.Capacity
	// reportedAt is when the last capacity report came.
	reportedAt time.Time
	// agreement is whether both sides agree on what the member holds, by the
	// digests on its renewals; empty while that is not known.
	agreement link.Agreement
	// slots left for each template's default resources, by the last report.
	slots map[placement.TemplateKey]int32

	// roomBytes is how long the reports were, template by template, that capacity
	// and slots are made of.
	roomBytes map[placement.TemplateKey]int

	// applying is held while a connection changes the cache or reads capacity;
	// the fleet's lock is taken under it, never the other way round.
	applying sync.Mutex

	// cluster of the member, with the cache of what its agent reports.
	cluster *cluster.Member
}

func newMember(mc *v1alpha1.MemberCluster, began time.Time) *member {
	return &member{
		name:        mc.Name,
		uid:         mc.UID,
		fingerprint: mc.Status.Fingerprint,
		contact:     contact{lastHeard: lostBefore(mc)},
		heartbeats:  health.NewTracker(everConnected(mc), began),
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

// registry is what the fleet knows of one member (cluster.Registry).
type registry struct {
	fleet  *Fleet
	member *member
}

var _ cluster.Registry = registry{}

// Available reports whether the member is connected and not Unreachable.
func (r registry) Available() bool {
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	return r.member.serving && r.member.assess(r.fleet.timings, r.fleet.look()).State != health.Unreachable
}

// Send puts an order in the outbox of the open connection.
func (r registry) Send(order link.Order) error {
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
func (r registry) Engaged() {
	r.fleet.tell(Change{Kind: MemberConnected, Member: r.member.name, UID: r.member.uid})
}

// Placed reports of a session whether it is placed in the member or not confirmed
// stopped there, by the hub's own account.
func (r registry) Placed(session types.UID) bool {
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	_, placed := r.fleet.placed.sessions[r.member.uid][session]
	return placed
}

// Knows reports whether a session is placed in the member, or the proof says that it
// was.
func (r registry) Knows(session types.UID, epoch int64, proof string) bool {
	return r.Placed(session) || proof != "" && r.fleet.proven != nil && r.fleet.proven(r.member.uid, session, epoch, proof)
}
