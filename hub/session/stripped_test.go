package session_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// strip deletes a session and removes its finalizer, as a user with the right to patch it can
// where no policy forbids that: the object is gone, and no member has confirmed.
func strip(ctx context.Context, s *api.VDISession) {
	GinkgoHelper()
	Expect(admin.Delete(ctx, s)).To(Succeed())
	none := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	Expect(client.IgnoreNotFound(admin.Patch(ctx, s, none))).To(Succeed())
	Eventually(gone(ctx, s)).Should(BeTrue())
}

var _ = Describe("A session whose finalizer a user removes", func() {
	It("is withdrawn from a member that was away, by the hub that observed the deletion", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "runaway"))
		a.disconnect()
		strip(ctx, s)
		settled()
		a.connect(theHub)
		Eventually(func() *api.SessionAssignment { return a.holds(s.UID) }).Should(BeNil())
	})

	It("is withdrawn, even where the order is still on its way", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu", func(a *agent) { a.mute = true })
		s := create(ctx, "desktops", "early")
		Eventually(a.ordersSeen).Should(Equal(1))
		strip(ctx, s)
		Eventually(a.ordersSeen).Should(Equal(2), "a withdrawal, although the member reports nothing")
	})

	It("keeps its home until the member confirms that nothing mounts it", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		a := join(ctx, "eu", func(a *agent) { a.holdStops = true })
		first, _ := running(ctx, create(ctx, "desktops", "first"))
		second := create(ctx, "desktops", "second")
		strip(ctx, first)
		Consistently(func() string { return homeNow(ctx).Status.MountedBy }).Should(Equal("first"))
		Expect(reason(ctx, second, api.ConditionScheduled)(NewWithT(GinkgoT()))).To(Equal("False/HomeInUse"))
		a.finishStops()
		running(ctx, second)
		Expect(a.sessions()).To(HaveLen(1))
	})

	It("is an orphan to a hub that did not observe the deletion, which deletes nothing and keeps its home", func(ctx SpecContext) {
		template(ctx, "browser", withHome(api.HomePerUser, "10Gi"))
		a := join(ctx, "eu")
		first, _ := running(ctx, create(ctx, "desktops", "first"))
		a.disconnect()
		strip(ctx, first)
		replaceHub()
		second := create(ctx, "desktops", "second")
		Eventually(reason(ctx, second, api.ConditionScheduled)).Should(Equal("False/HomeInUse"))
		Consistently(func() *api.SessionAssignment { return a.holds(first.UID) }).ShouldNot(BeNil())
		Expect(homeNow(ctx).Status.MountedBy).To(Equal("first"))

		// An operator deletes it in the member.
		a.disconnect()
		a.set(func() { a.end(first.UID) })
		a.connect(theHub)
		running(ctx, second)
	}, NodeTimeout(testTimeout))
})
