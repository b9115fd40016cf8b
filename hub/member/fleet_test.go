package member

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/cache"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// fixture is a fleet with a fake clock, whose provider runs.
type fixture struct {
	*Fleet
	*cache.Cache
	*WithT
	scheme  *kruntime.Scheme
	clock   *clocktesting.FakeClock
	aware   *aware
	changes *changes
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	scheme := kruntime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))
	placed := cache.New(clock)
	x := &fixture{
		Fleet: New(Options{Scheme: scheme, Clock: clock, Timings: health.DefaultTimings(1), Cache: placed}), Cache: placed,
		WithT: NewWithT(t), scheme: scheme, clock: clock, aware: &aware{}, changes: &changes{},
	}
	placed.Follow(x.Fleet)
	x.unfenceWait = 0 // a test reconciles between two attempts
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- x.Start(ctx, x.aware) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the provider ended with %v", err)
		}
	})
	x.Listen(x.changes.note)
	return x
}

func (x *fixture) register(name string, uid types.UID, change ...func(*v1alpha1.MemberCluster)) *v1alpha1.MemberCluster {
	mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, Generation: 1}}
	mc.Spec.Region, mc.Spec.IngressDomain = "eu", name+".example.com"
	for _, f := range change {
		f(mc)
	}
	x.Register(mc)
	return mc
}

func (x *fixture) open(uid types.UID, instance string) (link.Member, *peer, error) {
	p := &peer{}
	m, err := x.Open(context.Background(), uid, &fleetv1.Hello{Fingerprint: "fp", Instance: instance}, p)
	return m, p, err
}

// connect opens a stream, and reports the member's inventory and capacity.
func (x *fixture) connect(uid types.UID, instance string, items ...*v1alpha1.SessionAssignment) (link.Member, *peer) {
	m, p, err := x.open(uid, instance)
	x.Expect(err).NotTo(HaveOccurred())
	reportAll(m, items...)
	m.Capacity(capacityReport(1, 100))
	x.Eventually(x.cluster(string(uid[4:]))).Should(Succeed())
	return m, p
}

func (x *fixture) cluster(name string) func() error {
	return func() error {
		_, err := x.Get(context.Background(), multicluster.ClusterName(name))
		return err
	}
}

func request(name string) placement.Request {
	return placement.Request{
		UID: types.UID("uid-" + name), Namespace: "desktops", Name: name, User: "ann",
		Template:  placement.TemplateKey{Name: "browser", Revision: "r1"},
		Resources: placement.Resources{"cpu": 1000},
	}
}

type peer struct {
	mu        sync.Mutex
	orders    []protocol.Order
	templates []*fleetv1.TemplateSet
	doors     []*fleetv1.DoorConfig
	closed    error
}

func (p *peer) Put(o protocol.Order) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders = append(p.orders, o)
}

func (p *peer) SetTemplates(t *fleetv1.TemplateSet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.templates = append(p.templates, t)
}

func (p *peer) Close(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = reason
}

// aware counts engagements, and checks that each cluster is ready for use.
type aware struct {
	mu      sync.Mutex
	engaged []string
	err     error
}

func (a *aware) Engage(ctx context.Context, name multicluster.ClusterName, cl cluster.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if !cl.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("the cache of %s had not synced when it was engaged", name)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.engaged = append(a.engaged, string(name))
	return a.err
}

func (a *aware) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.engaged...)
}

type changes struct {
	mu   sync.Mutex
	seen []Change
}

func (c *changes) note(change Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, change)
}

// take returns the changes since its last call.
func (c *changes) take() []Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.seen
	c.seen = nil
	return seen
}

func TestMemberIsThereWhileItIsConnected(t *testing.T) {
	x := newFixture(t)
	x.Expect(x.cluster("eu")()).To(MatchError(multicluster.ErrClusterNotFound), "unknown")
	x.register("eu", "uid-eu")
	x.Expect(x.cluster("eu")()).To(MatchError(multicluster.ErrClusterNotFound), "never connected")
	m, _, err := x.open("uid-eu", "i1")
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(x.cluster("eu")()).To(MatchError(multicluster.ErrClusterNotFound), "before its inventory")
	reportAll(m, item("a", 1, active))
	x.Eventually(x.cluster("eu")).Should(Succeed())
	cl, _ := x.Get(context.Background(), "eu")
	got := &v1alpha1.SessionAssignment{}
	x.Expect(cl.GetClient().Get(context.Background(), keyOfName("a"), got)).To(Succeed(), "as soon as it is there")
	x.Eventually(x.aware.names).Should(Equal([]string{"eu"}))

	m.Closed(nil)
	x.Expect(x.cluster("eu")()).To(MatchError(multicluster.ErrClusterNotFound), "away")
	x.Expect(cl.GetClient().Create(context.Background(), item("b", 1, ""))).To(MatchError(multicluster.ErrClusterNotFound))

	for i := range 3 {
		m, _ = x.connect("uid-eu", fmt.Sprintf("i%d", i+2), item("a", int64(i+2), active))
		x.Eventually(func() int64 {
			_ = cl.GetClient().Get(context.Background(), keyOfName("a"), got)
			return got.Spec.Epoch
		}).Should(Equal(int64(i + 2)))
		m.Closed(nil)
	}
	x.Expect(x.aware.names()).To(Equal([]string{"eu"}), "engaged once over all connections")
	x.connect("uid-eu", "i9")
	x.Remove("eu")
	x.Expect(x.cluster("eu")()).To(MatchError(multicluster.ErrClusterNotFound), "removed")
	_, _, err = x.open("uid-eu", "i9")
	x.Expect(err).To(MatchError(link.ErrUnknownMember))
}

func TestRecreatedMemberIsAnotherMember(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	old, oldPeer := x.connect("uid-eu", "i1", item("a", 1, active))
	x.register("eu", "new-eu")
	x.Expect(oldPeer.closed).To(MatchError(errRemoved))
	old.Changes(reportsOf(item("b", 1, active)))
	_, _, err := x.open("uid-eu", "i1")
	x.Expect(err).To(MatchError(link.ErrUnknownMember))
	x.connect("new-eu", "i2")
	x.Eventually(x.aware.names).Should(Equal([]string{"eu", "eu"}))
	cl, err := x.Get(context.Background(), "eu")
	x.Expect(err).NotTo(HaveOccurred())
	list := &v1alpha1.SessionAssignmentList{}
	x.Expect(cl.GetClient().List(context.Background(), list)).To(Succeed())
	x.Expect(list.Items).To(BeEmpty(), "it inherits nothing")
	ref, _ := x.RefOf("eu")
	x.Expect(ref.UID).To(Equal(types.UID("new-eu")))
}

func TestAgentsThatAreAdmitted(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	first, firstPeer := x.connect("uid-eu", "i1")

	_, _, err := x.open("uid-eu", "i2")
	x.Expect(err).To(MatchError(link.ErrAlreadyConnected), "the incumbent stays")
	x.Expect(firstPeer.closed).NotTo(HaveOccurred())
	_, err = x.Renew("uid-eu", link.Renewal{Instance: "i2"})
	x.Expect(err).To(MatchError(link.ErrAlreadyConnected))

	second, secondPeer := x.connect("uid-eu", "i1", item("a", 2, active))
	x.Expect(firstPeer.closed).To(HaveOccurred(), "the same process replaces itself")
	first.Changes(reportsOf(item("a", 9, active)))
	first.Closed(errors.New("late"))
	x.Expect(x.shown("uid-eu")).To(Equal(map[string]string{"a": "Active@2"}), "reports of a replaced stream do not count")
	x.Expect(x.cluster("eu")()).To(Succeed(), "and ends nothing")

	x.clock.Step(x.timings.Suspect)
	x.connect("uid-eu", "i2")
	x.Expect(secondPeer.closed).To(HaveOccurred(), "a silent incumbent is replaced")
	second.Closed(nil)

	_, err = x.Open(context.Background(), "uid-eu", &fleetv1.Hello{Fingerprint: "another", Instance: "i2"}, &peer{})
	x.Expect(err).To(MatchError(link.ErrFingerprint))
}

func TestAgentOfAnEarlierTermIsRefused(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, err := x.Open(context.Background(), "uid-eu", &fleetv1.Hello{Fingerprint: "fp", Instance: "i2", AgentTerm: 2}, &peer{})
	x.Expect(err).NotTo(HaveOccurred())
	m.Closed(nil)
	_, err = x.Open(context.Background(), "uid-eu", &fleetv1.Hello{Fingerprint: "fp", Instance: "i1", AgentTerm: 1}, &peer{})
	x.Expect(err).To(MatchError(link.ErrStaleAgent))
}

func TestRenewal(t *testing.T) {
	x := newFixture(t)
	_, err := x.Renew("uid-eu", link.Renewal{Instance: "i1"})
	x.Expect(err).To(MatchError(link.ErrUnknownMember))
	x.register("eu", "uid-eu")
	_, err = x.Renew("uid-eu", link.Renewal{Instance: "i1"})
	x.Expect(err).To(MatchError(link.ErrNotConnected))
	m, _ := x.connect("uid-eu", "i1")
	lease, err := x.Renew("uid-eu", link.Renewal{Instance: "i1"})
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(lease).To(Equal(x.timings.Failover.Lease))

	x.changes.take()
	x.clock.Step(x.timings.Unreachable)
	x.show("eu")
	x.Expect(x.State("uid-eu").Health).To(Equal(health.Unreachable))
	x.Expect(x.cluster("eu")()).To(MatchError(multicluster.ErrClusterNotFound), "silent on an open stream")
	_, err = x.Renew("uid-eu", link.Renewal{Instance: "i1"})
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(x.cluster("eu")()).To(Succeed())
	x.Expect(x.changes.take()).To(ContainElements(
		Change{Kind: MemberChanged, Member: "eu", UID: "uid-eu"}, Change{Kind: MemberConnected, Member: "eu", UID: "uid-eu"},
	), "what was shown as unknown is checked again")
	m.Closed(nil)
	_, err = x.Renew("uid-eu", link.Renewal{Instance: "i1"})
	x.Expect(err).NotTo(HaveOccurred(), "a stream that broke takes no lease away")
}

func TestHealthThatChangesBySilenceIsReported(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	x.show("eu")
	x.Eventually(x.changes.take).Should(ContainElement(Change{Kind: MemberConnected, Member: "eu", UID: "uid-eu"}), "it is engaged")
	x.show("eu")
	x.Expect(x.changes.take()).To(BeEmpty())
	x.clock.Step(x.timings.Suspect)
	x.show("eu")
	x.Expect(x.changes.take()).To(Equal([]Change{{Kind: MemberChanged, Member: "eu", UID: "uid-eu"}}))
}

func TestListenBeginsWithTheCurrentState(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.register("us", "uid-us")
	x.connect("uid-eu", "i1")
	x.Eventually(x.changes.take).Should(ContainElement(Change{Kind: MemberConnected, Member: "eu", UID: "uid-eu"}), "it is engaged")
	late := &changes{}
	x.Listen(func(c Change) {
		x.State(c.UID) // a listener may read the fleet
		late.note(c)
	})
	x.Expect(late.take()).To(ConsistOf(
		Change{Kind: MemberChanged, Member: "eu", UID: "uid-eu"}, Change{Kind: MemberConnected, Member: "eu", UID: "uid-eu"}, Change{Kind: MemberChanged, Member: "us", UID: "uid-us"},
	))
	x.register("eu", "uid-eu")
	x.Expect(late.take()).To(BeEmpty(), "nothing has changed")
	x.register("eu", "uid-eu", func(mc *v1alpha1.MemberCluster) { mc.Generation, mc.Spec.IngressDomain = 2, "new.example.com" })
	x.Expect(late.take()).To(ConsistOf(Change{Kind: MemberChanged, Member: "eu", UID: "uid-eu"}, Change{Kind: MemberConnected, Member: "eu", UID: "uid-eu"}), "the URLs change")
}

func TestTemplatesReachEveryAgent(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	_, p := x.connect("uid-eu", "i1")
	set := &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{Name: "browser"}}}
	_ = x.SetTemplates(t.Context(), set, nil)
	x.Expect(p.templates[len(p.templates)-1]).To(BeIdenticalTo(set))
	sent := len(p.templates)
	_ = x.SetTemplates(t.Context(), proto.Clone(set).(*fleetv1.TemplateSet), nil)
	x.Expect(p.templates).To(HaveLen(sent), "the same set is sent again")
	x.register("us", "uid-us")
	_, p = x.connect("uid-us", "i1")
	x.Expect(p.templates).To(HaveLen(1))
	x.Expect(p.templates[0]).To(BeIdenticalTo(set), "and those that come later")
}

func TestOrdersGoToTheOpenConnection(t *testing.T) {
	x := newFixture(t)
	ctx := context.Background()
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	cl, _ := x.Get(ctx, "eu")
	m.Closed(nil)
	m, p := x.connect("uid-eu", "i1", item("running", 3, active))
	x.Expect(cl.GetClient().Create(ctx, item("wanted", 1, ""))).To(Succeed())
	x.Expect(cl.GetClient().Delete(ctx, item("running", 3, ""))).To(Succeed())
	x.Expect(p.orders).To(HaveLen(2))
	x.Expect(p.orders[0].Assign.Name).To(Equal("wanted"))
	x.Expect(proto.Equal(p.orders[1].Withdraw, &fleetv1.Withdrawal{SessionUid: "uid-running", Namespace: "desktops", Name: "running", UpToEpoch: 3})).To(BeTrue())

	// An ended assignment is dropped only by a client that has read its end.
	cache := x.cache("uid-eu")
	seen := cache.Get(keyOfName("running")).ResourceVersion
	m.Results([]protocol.Result{{SessionUID: "uid-running", Namespace: "desktops", Name: "running", Epoch: 3, Code: protocol.Stopped}})
	x.Expect(cl.GetClient().Delete(ctx, item("running", 3, ""))).To(Succeed())
	x.Expect(cl.GetClient().Delete(ctx, item("running", 3, ""), client.Preconditions{ResourceVersion: &seen})).To(Succeed())
	x.Expect(x.shown("uid-eu")).To(HaveLen(1), "the end is still to be recorded")
	seen = cache.Get(keyOfName("running")).ResourceVersion
	x.Expect(cl.GetClient().Delete(ctx, item("running", 3, ""), client.Preconditions{ResourceVersion: &seen})).To(Succeed())
	x.Expect(p.orders).To(HaveLen(2))
	x.Expect(x.shown("uid-eu")).To(BeEmpty())

	for _, err := range []error{
		cl.GetClient().Patch(ctx, item("a", 1, ""), client.Merge), cl.GetClient().DeleteAllOf(ctx, item("a", 1, "")),
		cl.GetClient().Create(ctx, &v1alpha1.VDISession{}), cl.GetClient().Delete(ctx, &v1alpha1.VDISession{}),
	} {
		x.Expect(err).To(MatchError(ContainSubstring("creates, updates and deletes SessionAssignments and nothing else")))
	}
}

func TestNothingOfARemovedMemberContinues(t *testing.T) {
	x := newFixture(t)
	x.register("keep", "uid-keep")
	x.connect("uid-keep", "i1")
	before := runtime.NumGoroutine()
	for i := range 20 {
		name := fmt.Sprintf("m%d", i)
		x.register(name, types.UID("uid-"+name))
		x.connect(types.UID("uid-"+name), "i1", item("a", 1, active))
		x.Expect(x.Place(request("s"+name), 1).Placed).To(BeTrue())
		x.Remove(name)
	}
	x.Eventually(runtime.NumGoroutine, "5s").Should(BeNumerically("<=", before+2))
	x.Expect(x.members).To(HaveLen(1))
	x.Expect(x.uids).To(HaveLen(1))
	x.Expect(x.cluster("keep")()).To(Succeed())
}
