package assignment

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// inMemory is an assignment controller with an API server that has one session, and one
// member.
type inMemory struct {
	*WithT
	*Reconciler
	member *outbox
}

func newInMemory(t *testing.T, stored *v1alpha1.VDISession) *inMemory {
	h := &inMemory{WithT: NewWithT(t), member: &outbox{}}
	h.Reconciler = &Reconciler{
		Live: &stores{session: stored}, Fleet: &members{}, Reservations: &members{}, Sessions: &sessions{}, Orders: &Orders{}, Departures: &Departures{}, Clock: clock.RealClock{},
	}
	return h
}

// members are all Ready.
type members struct {
	Members
	// withholds is set if nothing is withdrawn without a cause.
	withholds bool
	// recovers is set if the hub was restored, and waits for its members' reports.
	recovers bool
}

func (m *members) State(types.UID) member.State                { return member.State{Health: health.Ready} }
func (m *members) Recovering() bool                            { return m.recovers }
func (m *members) Ordered(types.UID, int64, types.UID, string) {}
func (m *members) MayWithdraw(types.UID, types.UID) bool       { return !m.withholds }
func (m *members) Withdrawn(types.UID, types.UID)              {}

// sessions is a session controller that has assigned one epoch.
type sessions struct {
	assigned int64
	// lastAssigned is the epoch that the hub may have assigned before its last restore.
	lastAssigned int64
	claimed      []string
	Sessions
}

func (s *sessions) Claimed(_ *v1alpha1.VDISession, member string) {
	s.claimed = append(s.claimed, member)
}
func (s *sessions) LastEpoch(types.UID) int64               { return s.assigned }
func (s *sessions) LastAssigned(*v1alpha1.VDISession) int64 { return s.lastAssigned }

// stores counts how often the session is read from the API server.
type stores struct {
	client.Reader
	session *v1alpha1.VDISession
	reads   int
}

func (s *stores) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.reads++
	if s.session == nil {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("vdisessions").GroupResource(), key.Name)
	}
	s.session.DeepCopyInto(into.(*v1alpha1.VDISession))
	return nil
}

// outbox counts the orders to a member.
type outbox struct {
	client.Client
	assigned, withdrawn int
}

func (o *outbox) Create(context.Context, client.Object, ...client.CreateOption) error {
	o.assigned++
	return nil
}

func (o *outbox) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	o.withdrawn++
	return nil
}

// requestOf returns the request for a session's assignment in a member.
func requestOf(member string, s *v1alpha1.VDISession) mcreconcile.Request {
	return memberRequest(member, KeyOf(s))
}
