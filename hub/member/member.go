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
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// member is the hub's state of one member. The fleet's lock protects all fields except
// the cache, which has its own lock.
//
// What every decision reads of every member comes first, close together.
type member struct {
	heartbeats health.Tracker
	// serving is set once the inventory of this connection is complete.
	serving bool
	// cluster of the member, with the cache of what its agent reports.
	cluster *cluster.Member
	// reportedAt is when the last capacity report arrived; zero before this hub has received
	// an inventory and a capacity report.
	reportedAt time.Time
	facts
	// withdrawals without a durable cause.
	withdrawals withdrawals
	// position in the fleet's registered members.
	position int
	// shown is the health that listeners were last notified of.
	shown health.State
	// peer is the open connection, nil while the member is not connected.
	peer link.Peer
	// sent are the templates, node groups and buffers that were sent to sentTo. If assumed, its process is to
	// have them from an earlier connection, until its first report shows whether it does.
	sent    *fleetv1.TemplateSet
	sentTo  link.Peer
	assumed bool
	// own is the set of a member with node groups or buffers: see setOf.
	own ownTemplates
	// agreement reports whether both sides agree on the member's assignments, by the
	// digests on its renewals; empty while that is unknown.
	agreement protocol.Agreement
	// applying is held while a connection changes the cache or reads capacity; the
	// fleet's lock is acquired under it, never the other way round.
	applying sync.Mutex
}

// facts is the part of a member's state that its status shows.
type facts struct {
	reportedCapacity
	fence fence
	object
	connectionHistory
	name string
	uid  types.UID
	agent
	drain draining
}

// object is what a member's MemberCluster declares.
type object struct {
	// removing is set while it is being deleted.
	removing bool
	// revoked is set by an operator; serials are of the certificates that the member may
	// use, nil if the hub does not issue them.
	revoked bool
	serials []string
	// version is the resourceVersion that was adopted last, at adopted.
	version    string
	adopted    time.Time
	generation int64
	labels     map[string]string
	spec       v1alpha1.MemberClusterSpec
	// nodeGroups are those of the spec, as agents get them, and buffers is what those of the spec are
	// to hold now: see regroup.
	nodeGroups []*fleetv1.NodeGroup
	buffers    dueBuffers
}

// agent is what a member's agent sent when it was last admitted.
type agent struct {
	fingerprint  string
	agentVersion string
	// hasDoor is set if browsers reach the member's desktops through a door.
	hasDoor bool
	// restrictions that the agent reports; nil if it has none, or has not connected.
	restrictions *v1alpha1.MemberRestrictions
	instance     string
	// term of the agent's process: see outranked. lowered is the event to record if it was
	// lower than the one before.
	term    int64
	lowered string
}

// change returns a change of the member.
func (m *member) change(kind ChangeKind) Change {
	return Change{Kind: kind, Member: m.name, UID: m.uid}
}

func newMember(mc *v1alpha1.MemberCluster, began time.Time) *member {
	return &member{
		facts: facts{
			name:              mc.Name,
			uid:               mc.UID,
			agent:             agent{fingerprint: mc.Status.Fingerprint},
			connectionHistory: connectionHistory{lastHeartbeat: lostBefore(mc)},
		},
		heartbeats: health.NewTracker(everConnected(mc), began),
	}
}

func (m *member) adopt(mc *v1alpha1.MemberCluster) {
	m.generation = mc.Generation
	m.removing = !mc.DeletionTimestamp.IsZero()
	m.labels = mc.Labels
	m.spec = *mc.Spec.DeepCopy()
	// Every decision reads these of every member.
	trim.Strings(&m.spec.Region, (*string)(&m.spec.Scheduling))
	m.drain.adopt(mc)
	m.revoked = mc.Spec.Access == v1alpha1.AccessRevoked
	m.serials = nil
	if c := mc.Status.Certificate; c != nil {
		m.serials = c.Serials()
	}
}

// clusterRegistry is the fleet's state of one member (cluster.Registry). Its methods acquire
// the fleet's lock.
type clusterRegistry struct {
	fleet  *state
	member *member
}

var _ cluster.Registry = clusterRegistry{}

func (r clusterRegistry) Available() bool {
	r.fleet.mu.Lock()
	defer r.fleet.mu.Unlock()
	return r.member.serving && r.member.assess(r.fleet.timings, r.fleet.now()).State != health.Unreachable
}

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

func (r clusterRegistry) Engaged() {
	r.fleet.notify(r.member.change(MemberConnected))
}

func (r clusterRegistry) Placed(session types.UID) bool {
	return r.fleet.cache.Holds(r.member.uid, session)
}

func (r clusterRegistry) Known(session types.UID, epoch int64, proof string) bool {
	return r.Placed(session) || proof != "" && r.fleet.proven != nil && r.fleet.proven(r.member.uid, session, epoch, proof)
}
