package member

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// member is what the hub knows of one member. The fleet's lock guards all but
// the picture, which has its own.
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

	// applying is held while a connection changes the picture or reads capacity;
	// the fleet's lock is taken under it, never the other way round.
	applying sync.Mutex

	pic     *picture
	cluster *memberCluster
	// synced: the cluster's cache has what the first inventory said.
	synced    bool
	disengage context.CancelFunc
}

func newMember(mc *v1alpha1.MemberCluster, began time.Time) *member {
	return &member{
		name:        mc.Name,
		uid:         mc.UID,
		fingerprint: mc.Status.Fingerprint,
		contact:     contact{lastHeard: lostBefore(mc)},
		heartbeats:  health.NewTracker(everConnected(mc), began),
		pic:         newPicture(),
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

// memberOutbox is the outbox of a member whatever its connection.
type memberOutbox struct {
	fleet *Fleet
	m     *member
}

// Assign puts an order in the outbox of the open connection.
func (o memberOutbox) Assign(a *v1alpha1.SessionAssignment) error {
	return o.put(link.Order{Assign: a})
}

// Withdraw puts an order in the outbox, unless the member has confirmed it already:
// the cache's watch is about to tell that.
func (o memberOutbox) Withdraw(a *v1alpha1.SessionAssignment) error {
	if !o.m.pic.Expect(keyOf(a), a.Spec.Session.UID, a.Spec.Epoch) {
		return nil
	}
	return o.put(link.Order{Withdraw: &link.Withdrawal{
		SessionUID: a.Spec.Session.UID,
		Namespace:  a.Namespace,
		Name:       a.Name,
		UpToEpoch:  a.Spec.Epoch,
		Force:      a.Annotations[v1alpha1.AnnotationForceCleanup] != "",
	}})
}

// Forget drops an end that the picture shows in this version.
func (o memberOutbox) Forget(a *v1alpha1.SessionAssignment, resourceVersion string) {
	o.m.pic.Update(keyOf(a), func(old *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment {
		if old != nil && awaitsRecording(old) && old.ResourceVersion == resourceVersion {
			return nil
		}
		return old
	})
}

func (o memberOutbox) put(order link.Order) error {
	o.fleet.mu.Lock()
	peer := o.m.peer
	if !o.m.serving {
		peer = nil
	}
	o.fleet.mu.Unlock()
	if peer == nil {
		return multicluster.ErrClusterNotFound
	}
	peer.Put(order)
	return nil
}
