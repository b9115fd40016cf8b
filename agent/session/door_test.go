package session_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("A door", Serial, func() {
	It("replaces the Ingresses of all desktops once it is in force, and is replaced by them", func(ctx SpecContext) {
		one, two := running(ctx), running(ctx)
		for _, a := range []client.Object{ingressOf(one), ingressOf(two)} {
			Expect(admin.Get(ctx, client.ObjectKeyFromObject(a), &networkingv1.Ingress{})).To(Succeed())
		}
		pod := get(ctx, podOf(one))

		By("putting it in force")
		door.set(ctx, true)
		DeferCleanup(func() { door.inForce.Store(false) })
		expectGone(ctx, ingressOf(one))
		expectGone(ctx, ingressOf(two))
		expectReady(ctx, one)
		Expect(get(ctx, podOf(one)).UID).To(Equal(pod.UID), "it runs on")
		three := running(ctx)
		Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKeyFromObject(three), ingressOf(three)))).To(Succeed())
		Expect(tally.of(three.Name)).NotTo(ContainElement(ContainSubstring("create ingresses")), "one write less than without")

		By("taking it out of force")
		door.set(ctx, false)
		for _, a := range []client.Object{ingressOf(one), ingressOf(two), ingressOf(three)} {
			Eventually(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(a), &networkingv1.Ingress{}) }).Should(Succeed())
		}
		Expect(get(ctx, podOf(one)).UID).To(Equal(pod.UID), "it runs on")
	})
})
