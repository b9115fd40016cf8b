package policy

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// fakePlacement reports that one in oneIn sessions would be placed elsewhere, and none if it is 0.
type fakePlacement struct {
	oneIn    int
	unknown  bool
	requests []placement.Request
	// takes advances the clock by the duration of a call.
	takes func()
}

func (a *fakePlacement) Misplaced(_ context.Context, requests []placement.Request) (int, bool) {
	if a.takes != nil {
		a.takes()
	}
	a.requests = append(a.requests, requests...)
	if a.unknown || a.oneIn == 0 {
		return 0, !a.unknown
	}
	return len(requests) / a.oneIn, true
}

func (a *fakePlacement) Listen(func(member.Change)) {}

type fixture struct {
	*WithT
	*Reconciler
	fleet *fakePlacement
	clock *clocktesting.FakePassiveClock
}

// newFixture returns a controller with policy "lab" for namespace lab, and "all" for others.
func newFixture(t *testing.T, sessions ...*v1alpha1.VDISession) *fixture {
	h := &fixture{WithT: NewWithT(t), fleet: &fakePlacement{}, clock: clocktesting.NewFakePassiveClock(sessiontest.Now)}
	scheme := runtime.NewScheme()
	h.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	lab, all := &v1alpha1.PlacementPolicy{}, &v1alpha1.PlacementPolicy{}
	lab.Name, lab.Spec.Precedence, lab.Spec.Match.Namespaces = "lab", 1, []string{"lab"}
	all.Name = "all"
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(lab, all).WithStatusSubresource(lab)
	for _, s := range sessions {
		builder = builder.WithObjects(s)
	}
	api := builder.Build()
	h.Reconciler = &Reconciler{
		Client: api, Sessions: index.Of(sessions...), Members: h.fleet, Placement: h.fleet, Clock: h.clock,
		Revisions: revisions{
			"browser/r1": {},
			"at-home/r1": {Home: v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser}},
		},
	}
	return h
}

// revisions are template specs by template and revision.
type revisions map[string]*v1alpha1.TemplateSpec

func (r revisions) Spec(_ context.Context, template, revision string) (*v1alpha1.TemplateSpec, error) {
	if spec := r[template+"/"+revision]; spec != nil {
		return spec, nil
	}
	return nil, fmt.Errorf("no revision %s of template %s", revision, template)
}

func suspended(s *v1alpha1.VDISession) { s.Spec.OperatingMode = v1alpha1.ModeSuspended }

// session returns a session of a namespace.
func session(namespace, name string, change ...func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)}}
	s.Spec.User, s.Spec.Template = "ann", "browser"
	s.Status.Phase = v1alpha1.PhasePending
	for _, f := range change {
		f(s)
	}
	return s
}

func atEU(s *v1alpha1.VDISession) {
	s.Status.Phase, s.Status.TemplateRevision = v1alpha1.PhaseRunning, "r1"
	s.Status.Placement = &v1alpha1.Placement{ClusterName: "eu", ClusterUID: sessiontest.Here, Epoch: 1}
}

// reconcile reconciles once, without the wait before the first update.
func (h *fixture) reconcile() (wait time.Duration) {
	if h.notBefore.IsZero() {
		h.notBefore = h.clock.Now()
	}
	result, err := h.Reconcile(context.Background(), allPolicies)
	h.Expect(err).NotTo(HaveOccurred())
	return result.RequeueAfter
}

func (h *fixture) policy(name string) *v1alpha1.PlacementPolicy {
	p := &v1alpha1.PlacementPolicy{}
	h.Expect(h.Client.Get(context.Background(), client.ObjectKey{Name: name}, p)).To(Succeed())
	return p
}

func (h *fixture) numbers(name string) string {
	s := h.policy(name).Status
	return fmt.Sprintf("%d: %d placed, %d waiting, %d elsewhere", s.Sessions, s.Placed, s.Waiting, s.Elsewhere)
}

func TestStatusOfAPolicy(t *testing.T) {
	refused := sessiontest.Condition(v1alpha1.ConditionAccepted, sessiontest.No, v1alpha1.ReasonUserNotAllowed)
	h := newFixture(t,
		session("lab", "placed", atEU), session("lab", "new", func(s *v1alpha1.VDISession) { s.Status.Phase = "" }), session("lab", "waiting"),
		session("lab", "refused", refused), session("lab", "suspended", suspended),
		session("lab", "failed", func(s *v1alpha1.VDISession) { s.Status.Phase = v1alpha1.PhaseFailed }),
		session("desktops", "mine", atEU), session("desktops", "by name", func(s *v1alpha1.VDISession) { s.Spec.Placement.Policy = "lab" }),
		session("desktops", "by no name", func(s *v1alpha1.VDISession) { s.Spec.Placement.Policy = "gone" }),
		session("desktops", "leaving", atEU, func(s *v1alpha1.VDISession) {
			s.Finalizers, s.DeletionTimestamp = []string{v1alpha1.Finalizer}, &metav1.Time{Time: sessiontest.Now}
		}),
	)
	h.fleet.oneIn = 1
	h.reconcile()
	h.Expect(h.numbers("lab")).To(Equal("7: 1 placed, 3 waiting, 1 elsewhere"))
	h.Expect(h.numbers("all")).To(Equal("1: 1 placed, 0 waiting, 1 elsewhere"))
	h.Expect(h.policy("lab").Status.LastReviewTime.Time).To(BeTemporally("==", sessiontest.Now.Truncate(time.Second)))
}

func TestPolicyIsWrittenOnlyWhenItsNumbersChange(t *testing.T) {
	h := newFixture(t, session("lab", "placed", atEU))
	h.reconcile()
	before := h.policy("lab")
	h.Expect(h.reconcile()).To(Equal(DefaultInterval), "it waits")
	h.clock.SetTime(sessiontest.Now.Add(DefaultInterval))
	h.fleet.requests = nil
	h.Expect(h.reconcile()).To(BeZero())
	h.Expect(h.fleet.requests).NotTo(BeEmpty(), "it has evaluated them")
	h.Expect(h.policy("lab").ResourceVersion).To(Equal(before.ResourceVersion))

	h.clock.SetTime(sessiontest.Now.Add(2 * DefaultInterval))
	h.fleet.unknown = true
	h.Sessions = index.Of(append(slices.Collect(h.Sessions.All()), session("lab", "another"))...)
	h.reconcile()
	h.Expect(h.numbers("lab")).To(Equal("2: 1 placed, 1 waiting, 0 elsewhere"))
}

func TestNoStatusBeforeMembersCouldReconnect(t *testing.T) {
	h := newFixture(t, session("lab", "placed", atEU))
	result, err := h.Reconcile(context.Background(), allPolicies)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(result.RequeueAfter).To(Equal(DefaultInterval))
	h.Expect(h.policy("lab").Status.LastReviewTime).To(BeNil())
	h.clock.SetTime(sessiontest.Now.Add(DefaultInterval))
	h.Expect(h.reconcile()).To(BeZero())
	h.Expect(h.policy("lab").Status.LastReviewTime).NotTo(BeNil())
}

func TestSlowUpdatesAreLessFrequent(t *testing.T) {
	h := newFixture(t, session("lab", "placed", atEU))
	h.fleet.takes = func() { h.clock.SetTime(h.clock.Now().Add(time.Second)) }
	h.reconcile()
	h.Expect(h.reconcile()).To(Equal(2*idleFactor*time.Second), "two policies took a second each")
}

func TestSlowWritesDoNotDelayUpdates(t *testing.T) {
	h := newFixture(t, session("lab", "placed", atEU))
	h.Client = interceptor.NewClient(h.Client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			h.clock.SetTime(h.clock.Now().Add(time.Second))
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	h.reconcile()
	h.Expect(h.reconcile()).To(Equal(DefaultInterval), "two writes took a second each")
}

func TestRequestOfAPlacedSession(t *testing.T) {
	h := newFixture(t,
		session("lab", "plain", atEU, func(s *v1alpha1.VDISession) { s.Spec.Placement.PreferredRegions = []string{"us"} }),
		session("lab", "idle", atEU, func(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true }),
		session("lab", "at home", atEU, func(s *v1alpha1.VDISession) { s.Spec.Template = "at-home" }),
		session("lab", "of a template that is gone", atEU, func(s *v1alpha1.VDISession) { s.Status.TemplateRevision = "r0" }),
	)
	h.reconcile()
	seats := map[string]placement.CurrentPlacement{}
	for _, r := range h.fleet.requests {
		h.Expect(r.PolicyName).To(Equal("lab"))
		seats[r.Name] = *r.Current
		if r.Name == "plain" {
			h.Expect(r.PreferredRegions).To(Equal([]string{"us"}))
		}
	}
	h.Expect(seats).To(Equal(map[string]placement.CurrentPlacement{"plain": {Cluster: sessiontest.Here, UsesCapacity: true}, "idle": {Cluster: sessiontest.Here}}))
}

func TestLargePoliciesAreSampled(t *testing.T) {
	var sessions []*v1alpha1.VDISession
	for i := range 4 * maxSampled {
		sessions = append(sessions, session("lab", fmt.Sprint("s", i), atEU))
	}
	h := newFixture(t, sessions...)
	h.fleet.oneIn = 5
	h.reconcile()
	h.Expect(h.fleet.requests).To(HaveLen(maxSampled))
	h.Expect(h.policy("lab").Status.Elsewhere).To(Equal(int32(4 * maxSampled / 5)))

	first := h.fleet.requests
	h.fleet.requests = nil
	h.clock.SetTime(sessiontest.Now.Add(time.Minute))
	h.reconcile()
	h.Expect(h.fleet.requests).To(Equal(first), "the same are drawn again")
}

func TestRelevantChanges(t *testing.T) {
	x := NewWithT(t)
	changed := func(change func(*v1alpha1.VDISession)) bool {
		before, after := session("lab", "s", atEU), session("lab", "s", atEU)
		before.ResourceVersion, after.ResourceVersion = "1", "2"
		change(after)
		return relevant(before, after)
	}
	x.Expect(changed(func(s *v1alpha1.VDISession) { s.Status.URL = "https://example.com" })).To(BeFalse())
	x.Expect(changed(func(s *v1alpha1.VDISession) { s.Status.Placement.ClusterUID = "other" })).To(BeTrue())
	x.Expect(changed(func(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true })).To(BeTrue())
	x.Expect(changed(func(s *v1alpha1.VDISession) { s.Labels = map[string]string{"team": "red"} })).To(BeTrue())
	x.Expect(changed(func(s *v1alpha1.VDISession) { s.Generation = 2 })).To(BeTrue())
}

// BenchmarkUsageBy measures a pass over 100,000 sessions and ten policies, without the
// evaluation of their placements.
func BenchmarkUsageBy(b *testing.B) {
	policies := make([]v1alpha1.PlacementPolicy, 10)
	for i := range policies {
		p := &policies[i]
		p.Name, p.Spec.Precedence = fmt.Sprint("p", i), int32(i)
		p.Spec.Match.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": fmt.Sprint(i)}}
	}
	sessions := make([]*v1alpha1.VDISession, 100_000)
	for i := range sessions {
		sessions[i] = session("lab", fmt.Sprint("s", i), atEU)
		sessions[i].Labels = map[string]string{"tier": fmt.Sprint(i % 11)}
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, g := range usageBy(policies, slices.Values(sessions)) {
			sample(g.placed, maxSampled)
		}
	}
}
