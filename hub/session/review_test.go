package session_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

// like returns the spec of a review of a session that does not exist.
func like(change ...func(*api.SessionSpec)) api.PlacementReviewSpec {
	s := &api.SessionSpec{User: "ann@example.com", Template: "browser"}
	for _, f := range change {
		f(s)
	}
	return api.PlacementReviewSpec{Session: s}
}

// reviewed creates a review, and returns the hub's answer.
func reviewed(ctx context.Context, spec api.PlacementReviewSpec) api.PlacementReviewStatus {
	GinkgoHelper()
	review := &api.PlacementReview{ObjectMeta: metav1.ObjectMeta{Namespace: "desktops", GenerateName: "review-"}, Spec: spec}
	Expect(admin.Create(ctx, review)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(review), review)).To(Succeed())
		g.Expect(review.Status.ReviewTime).NotTo(BeNil())
	}).Should(Succeed())
	Expect(admin.Delete(ctx, review)).To(Succeed())
	return review.Status
}

// verdictOn returns the verdict on a member.
func verdictOn(status api.PlacementReviewStatus, member string) api.ClusterVerdict {
	GinkgoHelper()
	for _, c := range status.Clusters {
		if c.ClusterName == member {
			return c
		}
	}
	Fail("no verdict on " + member)
	return api.ClusterVerdict{}
}

func slots(n int) func(*agent) { return func(a *agent) { a.slots = n } }

var _ = Describe("A review", func() {
	It("reports where a hundred sessions would be placed, and reserves nothing", specs.Smoke, func(ctx SpecContext) {
		join(ctx, "eu", slots(3))
		join(ctx, "us", slots(2))
		away := &api.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "ap"}}
		away.Spec.Region, away.Spec.IngressDomain = "ap", "ap.example.com"
		Expect(admin.Create(ctx, away)).To(Succeed())
		template(ctx, "browser")
		settled()
		at := mark()
		spec := like()
		spec.Count = 100
		status := reviewed(ctx, spec)
		Expect([]int32{status.Placed, status.Waiting, status.NotTried}).To(Equal([]int32{5, 95, 0}))
		Expect(status.Reason).To(Equal(api.ReasonUnschedulable))
		Expect(status.Message).To(And(HavePrefix("3 clusters: 1 is not ready"), ContainSubstring("2 have just reserved their last capacity for other sessions")))

		eu, us, ap := verdictOn(status, "eu"), verdictOn(status, "us"), verdictOn(status, "ap")
		Expect([]int32{eu.Sessions, us.Sessions, ap.Sessions}).To(Equal([]int32{3, 2, 0}))
		Expect(eu).To(And(HaveField("Fits", true), HaveField("Slots", int64(3)), HaveField("Rank", int32(1)), HaveField("Region", "eu")))
		Expect(eu.Scores).NotTo(BeEmpty())
		age, reported := eu.CapacityAge.Value()
		Expect(reported).To(BeTrue())
		Expect(age).To(BeNumerically("<", time.Minute))
		Expect(ap.Filter).To(Equal("Ready"))
		Expect(ap.CapacityAge).To(BeEmpty(), "it has made no report")
		Expect(status.Clusters[2].ClusterName).To(Equal("ap"), "those that fit come first")

		for _, w := range writesSince(at) {
			Expect(w.Resource).To(HavePrefix("placementreviews"), "the hub writes nothing but the answer")
		}
		Expect(harness.Total(writesSince(at))).To(Equal(1))
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			running(ctx, create(ctx, "desktops", name))
		}
	})

	It("reports why one is placed where it is", func(ctx SpecContext) {
		join(ctx, "eu")
		join(ctx, "us")
		template(ctx, "browser")
		policy := &api.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: "home"}}
		policy.Spec.Match.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}}
		policy.Spec.RequiredRegions = []string{"us"}
		Expect(admin.Create(ctx, policy)).To(Succeed())
		spec := like()
		spec.Labels = map[string]string{"team": "red"}
		var status api.PlacementReviewStatus
		Eventually(func() string {
			status = reviewed(ctx, spec)
			return status.Policy + " " + status.Reason // both members have yet to evaluate the template
		}).Should(Equal("home " + api.ReasonPlaced))
		Expect(status.Message).To(Equal("us: 100 slots left, the only one of 2 that fits"))
		Expect(verdictOn(status, "us").Sessions).To(Equal(int32(1)))
		Expect(verdictOn(status, "eu")).To(And(HaveField("Filter", "Regions"), HaveField("Message", ContainSubstring("see the policy's requiredRegions"))))
	})

	DescribeTable("reports why a session may not be placed as it is:", func(ctx SpecContext, spec api.PlacementReviewSpec, reason, message string) {
		join(ctx, "eu")
		template(ctx, "browser", func(t *api.TemplateSpec) { t.AllowedUsers = []string{"ann@example.com"} })
		Eventually(func() string { return reviewed(ctx, like()).Reason }).Should(Equal(api.ReasonPlaced))
		spec.Count = 7
		status := reviewed(ctx, spec)
		Expect(status.Reason).To(Equal(reason))
		Expect(status.Message).To(ContainSubstring(message))
		Expect([]int32{status.Placed, status.Waiting}).To(Equal([]int32{0, 7}))
		Expect(status.Clusters).To(BeEmpty())
	},
		Entry("no template", like(func(s *api.SessionSpec) { s.Template = "developer" }), api.ReasonTemplateNotFound, `there is no template "developer"`),
		Entry("no policy", like(func(s *api.SessionSpec) { s.Placement.Policy = "none" }), api.ReasonPolicyNotFound, `there is no placement policy "none"`),
		Entry("another user", like(func(s *api.SessionSpec) { s.User = "bob" }), api.ReasonUserNotAllowed, `not for user "bob"`),
		Entry("no session", api.PlacementReviewSpec{SessionName: "ann"}, api.ReasonSessionNotFound, `there is no session "ann" in namespace desktops`),
	)

	It("evaluates a placed session as if it were rescheduled", func(ctx SpecContext) {
		join(ctx, "eu", slots(1))
		join(ctx, "us", slots(0))
		template(ctx, "browser")
		s, _ := running(ctx, create(ctx, "desktops", "ann"))
		create(ctx, "desktops", "bob")
		Eventually(func(g Gomega) {
			status := reviewed(ctx, api.PlacementReviewSpec{SessionName: s.Name})
			g.Expect(status.Placed).To(Equal(int32(1)))
			g.Expect(verdictOn(status, "eu")).To(And(HaveField("Fits", true), HaveField("Slots", int64(1)), HaveField("Sessions", int32(1))), "its own capacity")
			g.Expect(verdictOn(status, "us").Filter).To(Equal("Capacity"))
			g.Expect(reviewed(ctx, like()).Placed).To(BeZero(), "another has no capacity there")
		}).Should(Succeed())
		status := reviewed(ctx, api.PlacementReviewSpec{SessionName: "bob"})
		Expect(status.Reason).To(Equal(api.ReasonUnschedulable))
		Eventually(func(g Gomega) {
			waiting := now(ctx, &api.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: "desktops", Name: "bob"}})
			g.Expect(waiting.Status.Message).To(Equal(status.Message), "what the session shows itself")
		}).Should(Succeed())
		Expect(now(ctx, s).Status.Placement).To(Equal(s.Status.Placement))

		edit(ctx, s, func() { s.Spec.OperatingMode = api.ModeSuspended })
		Eventually(func(g Gomega) {
			status := reviewed(ctx, api.PlacementReviewSpec{SessionName: s.Name})
			g.Expect(status.Reason).To(Equal(api.ReasonSuspended))
			g.Expect(status.Placed).To(BeZero())
			g.Expect(status.Clusters).To(HaveLen(2), "the review still names where it would go")
		}).Should(Succeed())
	})

	It("finds the member of a home, and the session that has it", func(ctx SpecContext) {
		join(ctx, "eu")
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		s, _ := running(ctx, create(ctx, "desktops", "ann"))
		join(ctx, "us")
		var status api.PlacementReviewStatus
		Eventually(func() string {
			status = reviewed(ctx, like())
			return verdictOn(status, "us").Filter
		}).Should(Equal("Home"), "once its agent's first report is in")
		Expect(status.Reason).To(Equal(api.ReasonHomeInUse))
		Expect(status.Message).To(ContainSubstring("in use by session ann"))
		Expect(verdictOn(status, "eu").Fits).To(BeTrue())
		others := like()
		others.Count, others.DistinctUsers = 3, true
		status = reviewed(ctx, others)
		Expect([]int32{status.Placed, status.Waiting}).To(Equal([]int32{2, 1}), "the user's session waits for its home, and no other waits for it")
		Expect(status.Reason).To(Equal(api.ReasonHomeInUse))
		status = reviewed(ctx, api.PlacementReviewSpec{SessionName: "ann"})
		Expect(status.Reason).To(Equal(api.ReasonPlaced))
		Expect(verdictOn(status, "us").Filter).To(Equal("Home"))

		Expect(admin.Delete(ctx, s)).To(Succeed())
		Eventually(gone(ctx, s)).Should(BeTrue())
		spec := like()
		spec.Count = 3
		Eventually(func(g Gomega) {
			status := reviewed(ctx, spec)
			g.Expect([]int32{status.Placed, status.Waiting}).To(Equal([]int32{1, 2}), "one user has one home")
			g.Expect(status.Reason).To(Equal(api.ReasonHomeInUse))
			g.Expect(verdictOn(status, "us").Filter).To(Equal("Home"))
		}).Should(Succeed())
		spec.DistinctUsers = true
		status = reviewed(ctx, spec)
		Expect([]int32{status.Placed, status.Waiting}).To(Equal([]int32{3, 0}))
		Expect(verdictOn(status, "us").Sessions).To(BeNumerically(">", 0), "the others have no home yet")
	})

	It("is deleted ten minutes after its answer, under the next leader too", func(ctx SpecContext) {
		template(ctx, "browser")
		review := &api.PlacementReview{ObjectMeta: metav1.ObjectMeta{Namespace: "desktops", Name: "unanswered"}, Spec: like()}
		Expect(admin.Create(ctx, review)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(review), review)).To(Succeed())
			g.Expect(review.Status.Reason).To(Equal(api.ReasonNoMembers))
		}).Should(Succeed())
		theHub.stop()
		review.Status.ReviewTime = ptr.To(metav1.NewTime(time.Now().Add(-10*time.Minute + time.Second)))
		Expect(admin.Status().Update(ctx, review)).To(Succeed())
		theHub = startHub(timings)
		Eventually(func() error {
			return admin.Get(ctx, client.ObjectKeyFromObject(review), review)
		}).Should(Satisfy(apierrors.IsNotFound))
	})
})
