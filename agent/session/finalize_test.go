package session_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("The end of a session", func() {
	It("leaves nothing, its own home included", func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerSession))
		claim := claimOf(a)
		Expect(admin.Delete(ctx, a)).To(Succeed())
		expectGone(ctx, a)
		for _, o := range []client.Object{podOf(a), serviceOf(a), ingressOf(a), claim} {
			Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKeyFromObject(o), o))).To(Succeed())
			Expect(o.GetUID()).To(BeEmpty(), "%T is left", o)
		}
	}, SpecTimeout(time.Minute))

	It("keeps a user's home", func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerUser))
		claim := get(ctx, claimOf(a))
		Expect(admin.Delete(ctx, a)).To(Succeed())
		expectGone(ctx, a)
		Expect(get(ctx, claim).DeletionTimestamp).To(BeNil())
		Expect(admin.Delete(ctx, claim)).To(Succeed())
	}, SpecTimeout(time.Minute))

	It("lasts until the Pod is gone, and says so when that takes long", func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerSession))
		edit(ctx, podOf(a), func(p *corev1.Pod) { p.Finalizers = []string{"example.com/slow"} })
		Expect(admin.Delete(ctx, a)).To(Succeed())
		Eventually(ctx, func() api.AssignmentState { return get(ctx, a).Status.State }).Should(Equal(api.AssignmentStopping))
		Expect(a.Status.Message).To(ContainSubstring("stopped by node " + a.Status.NodeName))
		expectGone(ctx, serviceOf(a))
		expectGone(ctx, ingressOf(a))
		Expect(get(ctx, claimOf(a)).DeletionTimestamp).To(BeNil(), "the home went before the Pod")
		Consistently(ctx, func() []string { return get(ctx, a).Finalizers }).Should(ContainElement(api.AssignmentFinalizer))
		edit(ctx, podOf(a), func(p *corev1.Pod) { p.Finalizers = nil })
		expectGone(ctx, a)
	}, SpecTimeout(time.Minute))

	It("waits for a Pod that its cache does not show", func(ctx SpecContext) {
		a := running(ctx)
		edit(ctx, podOf(a), func(p *corev1.Pod) { p.Finalizers = []string{"example.com/slow"} })
		Expect(admin.Delete(ctx, podOf(a))).To(Succeed())
		edit(ctx, podOf(a), func(p *corev1.Pod) { p.Labels = nil })
		Expect(admin.Delete(ctx, a)).To(Succeed())
		Consistently(ctx, func() []string { return get(ctx, a).Finalizers }).Should(ContainElement(api.AssignmentFinalizer))
		edit(ctx, podOf(a), func(p *corev1.Pod) { p.Finalizers = nil })
		expectGone(ctx, a)
	}, SpecTimeout(time.Minute))

	It("comes while the image can't be pulled, while no node fits, and before anything is made", func(ctx SpecContext) {
		pulling := assigned(ctx, image("broken.invalid/desktop:1"))
		unfit := assigned(ctx, func(a *api.SessionAssignment) {
			a.Spec.Desktop.Resources[corev1.ResourceCPU] = resource.MustParse("1000")
		})
		Eventually(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(unfit), podOf(unfit)) }).Should(Succeed())
		Eventually(ctx, func(g Gomega) {
			pod := podOf(pulling)
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			g.Expect(pod.Status.ContainerStatuses).NotTo(BeEmpty())
		}).Should(Succeed())
		early := assigned(ctx, home(api.HomePerSession))
		earlyClaim := claimOf(early)
		for _, a := range []*api.SessionAssignment{pulling, unfit, early} {
			Expect(admin.Delete(ctx, a)).To(Succeed())
		}
		for _, a := range []*api.SessionAssignment{pulling, unfit, early} {
			expectGone(ctx, a)
			expectGone(ctx, podOf(a))
		}
		expectGone(ctx, earlyClaim)
	}, SpecTimeout(time.Minute))

	It("does not touch what is not its own", func(ctx SpecContext) {
		a := assignment(home(api.HomePerSession))
		others := render.Home(a)
		others.Labels[api.LabelSessionUID] = "another-session"
		Expect(admin.Create(ctx, others)).To(Succeed())
		a = assigned(ctx, func(made *api.SessionAssignment) { *made = *a })
		Eventually(ctx, func() []string { return tally.of(a.Name) }).ShouldNot(BeEmpty())
		Expect(admin.Delete(ctx, a)).To(Succeed())
		expectGone(ctx, a)
		Expect(get(ctx, others).DeletionTimestamp).To(BeNil())
		Expect(admin.Delete(ctx, others)).To(Succeed())
	}, SpecTimeout(time.Minute))
})
