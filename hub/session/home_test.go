package session_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

func withHome(mode api.HomeMode, size string) func(*api.TemplateSpec) {
	return func(t *api.TemplateSpec) {
		q := resource.MustParse(size)
		t.Home.Mode, t.Home.Size = mode, &q
	}
}

func fresh(s *api.SessionSpec) { s.FreshHome = true }

func suspended(s *api.SessionSpec) { s.OperatingMode = api.ModeSuspended }

// theHome returns the record of the home of the suite's user, for Eventually.
func theHome(ctx context.Context) func(Gomega) *api.VDIHome {
	return func(g Gomega) *api.VDIHome {
		h := &api.VDIHome{}
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: "desktops", Name: api.HomeName("desktops", "ann@example.com", "browser")}, h)).To(Succeed())
		return h
	}
}

func homeNow(ctx context.Context) *api.VDIHome {
	GinkgoHelper()
	return theHome(ctx)(NewWithT(GinkgoT()))
}

func remove(ctx context.Context, s *api.VDISession) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, s)).To(Succeed())
	Eventually(gone(ctx, s)).Should(BeTrue())
}

var _ = Describe("A user's home", func() {
	It("is one session's at a time: another waits, shows for which, and gets it once it is free", specs.Smoke, func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		join(ctx, "eu")
		join(ctx, "us")
		first, a := running(ctx, create(ctx, "desktops", "first"))
		h := homeNow(ctx)
		Expect(h.Status.MountedByUID).To(Equal(first.UID))
		Expect(h.Finalizers).To(ConsistOf(api.HomeFinalizer))
		Expect(first.Status.Home).To(Equal(&api.SessionHome{
			Name: h.Name, ClusterName: a.name, ClusterUID: a.uid, ClaimName: h.Spec.ClaimName,
		}))
		second := create(ctx, "desktops", "second")
		Eventually(phase(ctx, second)).Should(And(HavePrefix("Pending: "), ContainSubstring("in use by session first (desktops/first)")))
		Expect(reason(ctx, second, api.ConditionScheduled)(NewWithT(GinkgoT()))).To(Equal("False/HomeInUse"))
		Consistently(a.sessions).Should(HaveLen(1))

		remove(ctx, first)
		second, _ = running(ctx, second)
		Expect(second.Status.Placement.ClusterName).To(Equal(a.name), "the home is there")
		Expect(a.holds(second.UID).Spec.Desktop.Home.ClaimName).To(Equal(h.Spec.ClaimName))
		remove(ctx, second)
		Eventually(theHome(ctx)).Should(And(HaveField("Status.MountedBy", BeEmpty()), HaveField("Finalizers", BeEmpty())))
		Expect(homeNow(ctx).Status.LastUseTime).NotTo(BeNil())
	})

	It("is released by a session that is suspended, once its Pod is gone and not before", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		a := join(ctx, "eu")
		first, _ := running(ctx, create(ctx, "desktops", "first"))
		second := create(ctx, "desktops", "second")
		Eventually(reason(ctx, second, api.ConditionScheduled)).Should(Equal("False/HomeInUse"))
		a.set(func() { a.holdStarts = true })
		edit(ctx, first, func() { suspended(&first.Spec) })
		Eventually(func() api.OperatingMode { return a.holds(first.UID).Spec.RunState }).Should(Equal(api.ModeSuspended))
		Consistently(reason(ctx, second, api.ConditionScheduled)).Should(Equal("False/HomeInUse"))
		a.set(func() { a.holdStarts = false })
		a.become(first.UID, conditions(api.ModeSuspended))
		second, _ = running(ctx, second)
		Expect(homeNow(ctx).Status.MountedByUID).To(Equal(second.UID))

		By("resuming the first, which is pending then, and holds no capacity")
		edit(ctx, first, func() { first.Spec.OperatingMode = api.ModeRunning })
		Eventually(phase(ctx, first)).Should(ContainSubstring("in use by session second"))
		Expect(a.holds(first.UID).Spec.RunState).To(Equal(api.ModeSuspended))
		remove(ctx, second)
		first, _ = running(ctx, first)
		Expect(homeNow(ctx).Status.MountedByUID).To(Equal(first.UID))
	})

	It("stays claimed when the leader changes", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		join(ctx, "eu")
		first, _ := running(ctx, create(ctx, "desktops", "first"))
		second := create(ctx, "desktops", "second")
		Eventually(reason(ctx, second, api.ConditionScheduled)).Should(Equal("False/HomeInUse"))
		replaceHub()
		Consistently(theHome(ctx)).Should(HaveField("Status.MountedByUID", first.UID))
		remove(ctx, first)
		running(ctx, second)
	})

	It("keeps its user's sessions in the member that holds it, unless one requests a fresh one", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		join(ctx, "eu")
		join(ctx, "us")
		first, _ := running(ctx, create(ctx, "desktops", "first", onlyIn("eu")))
		old := homeNow(ctx).Spec
		remove(ctx, first)
		pinned := create(ctx, "desktops", "pinned", onlyIn("us"))
		Eventually(phase(ctx, pinned)).Should(ContainSubstring("it is in eu"))
		remove(ctx, pinned)
		s, a := running(ctx, create(ctx, "desktops", "again", onlyIn("us"), fresh))
		h := homeNow(ctx)
		Expect(h.Spec.Generation).To(Equal(int64(2)))
		Expect(h.Spec.ClusterName).To(Equal("us"))
		Expect(h.Spec.ClaimName).NotTo(Equal(old.ClaimName))
		Expect(h.Status.LeftBehind).To(ConsistOf(And(HaveField("ClaimName", old.ClaimName), HaveField("ClusterName", "eu"))))
		Expect(a.holds(s.UID).Spec.Desktop.Home.ClaimName).To(Equal(h.Spec.ClaimName))
		a.deleteByHand(s.UID)
		Eventually(func() int64 { return now(ctx, s).Status.Epoch }).Should(Equal(int64(2)))
		running(ctx, s)
		Expect(homeNow(ctx).Spec.Generation).To(Equal(int64(2)), "one fresh home is enough")
	})

	It("is not left behind more often than the limit, and the session shows the remedy", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		join(ctx, "eu")
		for i := range 4 {
			s, _ := running(ctx, create(ctx, "desktops", fmt.Sprint("fresh", i), fresh))
			remove(ctx, s)
		}
		Expect(homeNow(ctx).Status.LeftBehind).To(HaveLen(3))
		fifth := create(ctx, "desktops", "fifth", fresh)
		Eventually(phase(ctx, fifth)).Should(ContainSubstring("no fresh home: ann@example.com has left 3 homes of template browser behind already"))
		Expect(reason(ctx, fifth, api.ConditionScheduled)(NewWithT(GinkgoT()))).To(Equal("False/TooManyHomes"))
		Expect(homeNow(ctx).Spec.Generation).To(Equal(int64(4)))
		h := homeNow(ctx)
		edit(ctx, h, func() { h.Status.LeftBehind = h.Status.LeftBehind[1:] })
		running(ctx, fifth)
		Expect(homeNow(ctx).Spec.Generation).To(Equal(int64(5)))
		remove(ctx, fifth)
		sixth := create(ctx, "desktops", "sixth", fresh)
		Eventually(reason(ctx, sixth, api.ConditionScheduled)).Should(Equal("False/TooManyHomes"))
		edit(ctx, sixth, func() { sixth.Spec.FreshHome = false })
		running(ctx, sixth)
		Expect(homeNow(ctx).Spec.Generation).To(Equal(int64(5)), "it has the home that there is")
	})

	It("is not created in a member that refuses its first session", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		join(ctx, "eu", func(a *agent) {
			a.slots = 1000
			a.refuse = func(*api.SessionAssignment) (string, string) { return api.RefusedNamespaceNotAdmitted, "no" }
		})
		join(ctx, "us", func(a *agent) { a.slots = 10 })
		s, a := running(ctx, create(ctx, "desktops", "first"))
		Expect(a.name).To(Equal("us"))
		h := homeNow(ctx)
		Expect(h.Spec.ClusterName).To(Equal("us"))
		Expect(h.Status.MountedByUID).To(Equal(s.UID))
		Expect(h.Status.LeftBehind).To(BeEmpty(), "nothing was ever there")
	})

	It("grows with its template, and its record outlives a deletion while it is in use", func(ctx SpecContext) {
		t := template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		a := join(ctx, "eu")
		first, _ := running(ctx, create(ctx, "desktops", "first"))
		remove(ctx, first)
		edit(ctx, t, func() { withHome(api.HomePerUser, "20Gi")(&t.Spec) })
		second, _ := running(ctx, create(ctx, "desktops", "second"))
		Expect(a.holds(second.UID).Spec.Desktop.Home.Size.String()).To(Equal("20Gi"))
		Expect(homeNow(ctx).Spec.Size.String()).To(Equal("20Gi"))

		Expect(admin.Delete(ctx, homeNow(ctx))).To(Succeed())
		Consistently(theHome(ctx)).Should(HaveField("Status.MountedByUID", second.UID))
		remove(ctx, second)
		Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(homeOf(second)), &api.VDIHome{}) }).Should(MatchError(ContainSubstring("not found")))
	})

	It("is deleted once it was unused for its retention time", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"), func(t *api.TemplateSpec) { t.Home.RetentionTime = "2s" })
		join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "first"))
		Consistently(theHome(ctx), "3s").Should(HaveField("Status.MountedByUID", s.UID))
		remove(ctx, s)
		Eventually(func() error { return admin.Get(ctx, client.ObjectKeyFromObject(homeOf(s)), &api.VDIHome{}) }).Should(MatchError(ContainSubstring("not found")))
	})

	It("costs one write more", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"), func(t *api.TemplateSpec) { t.Access.Mode = api.AccessNone })
		join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "first"))
		remove(ctx, s)
		settled()
		before := mark()
		running(ctx, create(ctx, "desktops", "second"))
		settled()
		expectFewWrites(before)
	})
})

func homeOf(s *api.VDISession) *api.VDIHome {
	h := &api.VDIHome{}
	h.Namespace, h.Name = s.Namespace, s.Status.Home.Name
	return h
}

var _ = Describe("A session's own home", func() {
	It("keeps it in its member once it was ready there", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerSession, "10Gi"))
		join(ctx, "eu", func(a *agent) { a.slots = 10 })
		join(ctx, "us", func(a *agent) { a.slots = 10 })
		s, a := running(ctx, create(ctx, "desktops", "mine"))
		Expect(s.Status.Home).To(Equal(&api.SessionHome{
			ClusterName: a.name, ClusterUID: a.uid, ClaimName: api.AssignmentName(s.Name, s.UID),
		}))
		for i := range 3 {
			a.deleteByHand(s.UID)
			Eventually(func() int64 { return now(ctx, s).Status.Epoch }).Should(Equal(int64(i + 2)))
			s, _ = running(ctx, s)
			Expect(s.Status.Placement.ClusterName).To(Equal(a.name), fmt.Sprint("epoch ", s.Status.Epoch))
		}
	})
})
