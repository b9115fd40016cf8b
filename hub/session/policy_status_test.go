package session

import (
	"context"
	"fmt"
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
	hubtemplate "github.com/vdi-fleet/vdi-fleet/hub/template"
)

// appraiser says that as many sessions as it is told would go elsewhere, one in
// so many.
type appraiser struct {
	oneIn   int
	unknown bool
	asked   []placement.Request
	// takes is how long it takes.
	takes func()
}

func (a *appraiser) Misplaced(_ context.Context, requests []placement.Request) (int, bool) {
	if a.takes != nil {
		a.takes()
	}
	a.asked = append(a.asked, requests...)
	if a.unknown || a.oneIn == 0 {
		return 0, !a.unknown
	}
	return len(requests) / a.oneIn, true
}

func (a *appraiser) Listen(func(member.Change)) {}

type policyHub struct {
	*WithT
	*PolicyReconciler
	fleet *appraiser
	clock *clocktesting.FakePassiveClock
}

// newPolicyHub has policy "lab" for namespace lab, and "all" for the rest.
func newPolicyHub(t *testing.T, sessions ...*v1alpha1.VDISession) *policyHub {
	h := &policyHub{WithT: NewWithT(t), fleet: &appraiser{}, clock: clocktesting.NewFakePassiveClock(testNow)}
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
	h.PolicyReconciler = &PolicyReconciler{
		Client: api, Fleet: h.fleet, Clock: h.clock,
		Revisions: &Revisions{Client: api, specs: map[string]*v1alpha1.TemplateSpec{
			hubtemplate.RevisionName("browser", "r1"): {},
			hubtemplate.RevisionName("at-home", "r1"): {Home: v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser}},
		}},
	}
	return h
}

// of is a session of a namespace.
func of(namespace, name string, change ...func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
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
	s.Status.Placement = &v1alpha1.Placement{ClusterName: "eu", ClusterUID: here, Epoch: 1}
}

// look lets the controller look once, or rest.
func (h *policyHub) look() (wait time.Duration) {
	if h.resting.IsZero() {
		h.resting = h.clock.Now()
	}
	result, err := h.Reconcile(context.Background(), allPolicies)
	h.Expect(err).NotTo(HaveOccurred())
	return result.RequeueAfter
}

func (h *policyHub) policy(name string) *v1alpha1.PlacementPolicy {
	p := &v1alpha1.PlacementPolicy{}
	h.Expect(h.Client.Get(context.Background(), client.ObjectKey{Name: name}, p)).To(Succeed())
	return p
}

func (h *policyHub) numbers(name string) string {
	s := h.policy(name).Status
	return fmt.Sprintf("%d: %d placed, %d waiting, %d elsewhere", s.Sessions, s.Placed, s.Waiting, s.Elsewhere)
}

func TestPolicyShowsWhatItGoverns(t *testing.T) {
	refused := conditionOf(v1alpha1.ConditionAccepted, no, v1alpha1.ReasonUserNotAllowed)
	h := newPolicyHub(t,
		of("lab", "placed", atEU), of("lab", "new", func(s *v1alpha1.VDISession) { s.Status.Phase = "" }), of("lab", "waiting"),
		of("lab", "refused", refused), of("lab", "suspended", suspended),
		of("lab", "failed", func(s *v1alpha1.VDISession) { s.Status.Phase = v1alpha1.PhaseFailed }),
		of("desktops", "mine", atEU), of("desktops", "by name", func(s *v1alpha1.VDISession) { s.Spec.Placement.Policy = "lab" }),
		of("desktops", "by no name", func(s *v1alpha1.VDISession) { s.Spec.Placement.Policy = "gone" }),
		of("desktops", "leaving", atEU, func(s *v1alpha1.VDISession) {
			s.Finalizers, s.DeletionTimestamp = []string{v1alpha1.Finalizer}, &metav1.Time{Time: testNow}
		}),
	)
	h.fleet.oneIn = 1
	h.look()
	h.Expect(h.numbers("lab")).To(Equal("7: 1 placed, 3 waiting, 1 elsewhere"))
	h.Expect(h.numbers("all")).To(Equal("1: 1 placed, 0 waiting, 1 elsewhere"))
	h.Expect(h.policy("lab").Status.LastReviewTime.Time).To(BeTemporally("==", testNow.Truncate(time.Second)))
}

func TestPolicyIsWrittenOnlyWhenItsNumbersChange(t *testing.T) {
	h := newPolicyHub(t, of("lab", "placed", atEU))
	h.look()
	before := h.policy("lab")
	h.Expect(h.look()).To(Equal(DefaultPolicyInterval), "it rests")
	h.clock.SetTime(testNow.Add(DefaultPolicyInterval))
	h.fleet.asked = nil
	h.Expect(h.look()).To(BeZero())
	h.Expect(h.fleet.asked).NotTo(BeEmpty(), "it has looked")
	h.Expect(h.policy("lab").ResourceVersion).To(Equal(before.ResourceVersion))

	h.clock.SetTime(testNow.Add(2 * DefaultPolicyInterval))
	h.fleet.unknown = true
	h.Expect(h.Client.Create(context.Background(), of("lab", "another"))).To(Succeed())
	h.look()
	h.Expect(h.numbers("lab")).To(Equal("2: 1 placed, 1 waiting, 0 elsewhere"))
}

func TestNothingIsSaidBeforeTheMembersCouldComeBack(t *testing.T) {
	h := newPolicyHub(t, of("lab", "placed", atEU))
	result, err := h.Reconcile(context.Background(), allPolicies)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(result.RequeueAfter).To(Equal(DefaultPolicyInterval))
	h.Expect(h.policy("lab").Status.LastReviewTime).To(BeNil())
	h.clock.SetTime(testNow.Add(DefaultPolicyInterval))
	h.Expect(h.look()).To(BeZero())
	h.Expect(h.policy("lab").Status.LastReviewTime).NotTo(BeNil())
}

func TestLooksThatTakeLongAreFewer(t *testing.T) {
	h := newPolicyHub(t, of("lab", "placed", atEU))
	h.fleet.takes = func() { h.clock.SetTime(h.clock.Now().Add(time.Second)) }
	h.look()
	h.Expect(h.look()).To(Equal(2*restShare*time.Second), "two policies took a second each")
}

func TestSlowWritesMakeNoFewerLooks(t *testing.T) {
	h := newPolicyHub(t, of("lab", "placed", atEU))
	h.Client = interceptor.NewClient(h.Client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			h.clock.SetTime(h.clock.Now().Add(time.Second))
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	h.look()
	h.Expect(h.look()).To(Equal(DefaultPolicyInterval), "two writes took a second each")
}

func TestWhatIsAskedOfASessionThatIsPlaced(t *testing.T) {
	h := newPolicyHub(t,
		of("lab", "plain", atEU, func(s *v1alpha1.VDISession) { s.Spec.Placement.PreferredRegions = []string{"us"} }),
		of("lab", "idle", atEU, func(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true }),
		of("lab", "at home", atEU, func(s *v1alpha1.VDISession) { s.Spec.Template = "at-home" }),
		of("lab", "of a template that is gone", atEU, func(s *v1alpha1.VDISession) { s.Status.TemplateRevision = "r0" }),
	)
	h.look()
	seats := map[string]placement.Seat{}
	for _, r := range h.fleet.asked {
		h.Expect(r.PolicyName).To(Equal("lab"))
		seats[r.Name] = *r.Seat
		if r.Name == "plain" {
			h.Expect(r.PreferredRegions).To(Equal([]string{"us"}))
		}
	}
	h.Expect(seats).To(Equal(map[string]placement.Seat{"plain": {Cluster: here, Taken: true}, "idle": {Cluster: here}}))
}

func TestOfManySessionsSomeAreDrawnAndTheNumberIsScaled(t *testing.T) {
	var sessions []*v1alpha1.VDISession
	for i := range 4 * judgedMost {
		sessions = append(sessions, of("lab", fmt.Sprint("s", i), atEU))
	}
	h := newPolicyHub(t, sessions...)
	h.fleet.oneIn = 5
	h.look()
	h.Expect(h.fleet.asked).To(HaveLen(judgedMost))
	h.Expect(h.policy("lab").Status.Elsewhere).To(Equal(int32(4 * judgedMost / 5)))

	first := h.fleet.asked
	h.fleet.asked = nil
	h.clock.SetTime(testNow.Add(time.Minute))
	h.look()
	h.Expect(h.fleet.asked).To(Equal(first), "the same are drawn again")
}

func TestWhatMattersToPolicies(t *testing.T) {
	x := NewWithT(t)
	changed := func(change func(*v1alpha1.VDISession)) bool {
		before, after := of("lab", "s", atEU), of("lab", "s", atEU)
		before.ResourceVersion, after.ResourceVersion = "1", "2"
		change(after)
		return matters(before, after)
	}
	x.Expect(changed(func(s *v1alpha1.VDISession) { s.Status.URL = "https://example.com" })).To(BeFalse())
	x.Expect(changed(func(s *v1alpha1.VDISession) { s.Status.Placement.ClusterUID = "other" })).To(BeTrue())
	x.Expect(changed(func(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true })).To(BeTrue())
	x.Expect(changed(func(s *v1alpha1.VDISession) { s.Labels = map[string]string{"team": "red"} })).To(BeTrue())
	x.Expect(changed(func(s *v1alpha1.VDISession) { s.Generation = 2 })).To(BeTrue())
}

// BenchmarkGovernedBy is a look at 100,000 sessions and ten policies, less what
// the fleet is asked.
func BenchmarkGovernedBy(b *testing.B) {
	policies := make([]v1alpha1.PlacementPolicy, 10)
	for i := range policies {
		p := &policies[i]
		p.Name, p.Spec.Precedence = fmt.Sprint("p", i), int32(i)
		p.Spec.Match.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": fmt.Sprint(i)}}
	}
	sessions := make([]v1alpha1.VDISession, 100_000)
	for i := range sessions {
		sessions[i] = *of("lab", fmt.Sprint("s", i), atEU)
		sessions[i].Labels = map[string]string{"tier": fmt.Sprint(i % 11)}
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, g := range governedBy(policies, sessions) {
			draw(g.placed, judgedMost)
		}
	}
}
