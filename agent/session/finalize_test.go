package session_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

var _ = Describe("The end of a session", func() {
	It("leaves nothing behind, its own home included", specs.Smoke, func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerSession), configured)
		claim := claimOf(a)
		Expect(admin.Delete(ctx, a)).To(Succeed())
		expectGone(ctx, a)
		for _, o := range []client.Object{podOf(a), serviceOf(a), ingressOf(a), configOf(a), claim} {
			Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKeyFromObject(o), o))).To(Succeed())
			Expect(o.GetUID()).To(BeEmpty(), "%T is left", o)
		}
	}, SpecTimeout(3*time.Minute))

	It("keeps a user's home", func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerUser))
		claim := get(ctx, claimOf(a))
		Expect(admin.Delete(ctx, a)).To(Succeed())
		expectGone(ctx, a)
		Expect(get(ctx, claim).DeletionTimestamp).To(BeNil())
		Expect(admin.Delete(ctx, claim)).To(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("lasts until the Pod is gone, and shows it when that takes long", specs.Smoke, func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerSession))
		edit(ctx, podOf(a), func(p *corev1.Pod) { p.Finalizers = []string{"example.com/slow"} })
		Expect(admin.Delete(ctx, a)).To(Succeed())
		Eventually(ctx, func() api.AssignmentState { return get(ctx, a).Status.State }).Should(Equal(api.AssignmentStopping))
		Expect(a.Status.Message).To(ContainSubstring("node " + a.Status.NodeName))
		expectGone(ctx, serviceOf(a))
		expectGone(ctx, ingressOf(a))
		Expect(get(ctx, claimOf(a)).DeletionTimestamp).To(BeNil(), "the home went before the Pod")
		Expect(get(ctx, policyOf(a)).DeletionTimestamp).To(BeNil(), "a desktop that still runs is not isolated")
		Consistently(ctx, func() []string { return get(ctx, a).Finalizers }).Should(ContainElement(api.AssignmentFinalizer))
		edit(ctx, podOf(a), func(p *corev1.Pod) { p.Finalizers = nil })
		expectGone(ctx, a)
	}, SpecTimeout(3*time.Minute))

	It("waits for a Pod that its cache does not show", func(ctx SpecContext) {
		a := running(ctx)
		edit(ctx, podOf(a), func(p *corev1.Pod) { p.Finalizers = []string{"example.com/slow"} })
		Expect(admin.Delete(ctx, podOf(a))).To(Succeed())
		edit(ctx, podOf(a), func(p *corev1.Pod) { p.Labels = nil })
		Expect(admin.Delete(ctx, a)).To(Succeed())
		Consistently(ctx, func() []string { return get(ctx, a).Finalizers }).Should(ContainElement(api.AssignmentFinalizer))
		edit(ctx, podOf(a), func(p *corev1.Pod) { p.Finalizers = nil })
		expectGone(ctx, a)
	}, SpecTimeout(3*time.Minute))

	It("succeeds while the image can't be pulled, while no node fits, and before anything is created", func(ctx SpecContext) {
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
	}, SpecTimeout(3*time.Minute))

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
	}, SpecTimeout(3*time.Minute))

	It("shows what is left, and after its deadline waits for the desktop only", func(ctx SpecContext) {
		a := running(ctx)
		edit(ctx, ingressOf(a), func(i *networkingv1.Ingress) { i.Finalizers = []string{"example.com/balancer"} })
		DeferCleanup(func(ctx SpecContext) {
			edit(ctx, ingressOf(a), func(i *networkingv1.Ingress) { i.Finalizers = nil })
		})
		Expect(admin.Delete(ctx, a)).To(Succeed())
		Eventually(ctx, func() string { return get(ctx, a).Status.Message }).
			Should(ContainSubstring("Ingress " + a.Name + " is kept by finalizer example.com/balancer"))
		expectGone(ctx, a)
		expectGone(ctx, podOf(a))
		Expect(get(ctx, ingressOf(a)).DeletionTimestamp).NotTo(BeNil())
		Eventually(ctx, notes(ctx, a, api.EventSkipped)).Should(ContainElement(ContainSubstring("example.com/balancer")))
	}, SpecTimeout(3*time.Minute))

	It("waits for a Pod on a lost node, shows the remedy, and is forced by an operator", func(ctx SpecContext) {
		a := running(ctx)
		node := get(ctx, podOf(a)).Spec.NodeName
		hold(ctx, podOf(a))
		nodes.lost.Store(node, true)
		DeferCleanup(func() { nodes.lost.Delete(node) })
		Expect(admin.Delete(ctx, a)).To(Succeed())
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, "", api.AnnotationForceCleanup)
		Expect(a.Status.Message).To(ContainSubstring(node))
		Consistently(ctx, func() []string { return get(ctx, a).Finalizers }).Should(ContainElement(api.AssignmentFinalizer))

		By("forcing it")
		edit(ctx, a, func(a *api.SessionAssignment) {
			a.Annotations = map[string]string{api.AnnotationForceCleanup: "the node burnt down"}
		})
		expectGone(ctx, a)
		Eventually(ctx, notes(ctx, a, api.EventForced)).Should(ContainElement(ContainSubstring("the node burnt down")))
	}, SpecTimeout(3*time.Minute))

	It("completes with the deletion of its namespace", func(ctx SpecContext) {
		const terminating = "desktops-terminating"
		Expect(member.EnsureNamespace(ctx, terminating, restricted)).To(Succeed())
		a := running(ctx, home(api.HomePerSession), configured, func(a *api.SessionAssignment) { a.Namespace = terminating })
		Expect(admin.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: terminating}})).To(Succeed())
		expectGone(ctx, a)
		Eventually(ctx, func() bool {
			return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKey{Name: terminating}, &corev1.Namespace{}))
		}).Should(BeTrue())
	}, SpecTimeout(3*time.Minute))
})

// hold keeps a Pod in the API server until it is deleted with grace period zero, like a kubelet
// that does not answer. The finalizer is removed after the test.
func hold(ctx context.Context, pod *corev1.Pod) {
	GinkgoHelper()
	edit(ctx, pod, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/kubelet"} })
	DeferCleanup(func(ctx SpecContext) {
		Eventually(ctx, func(g Gomega) {
			if admin.Get(ctx, client.ObjectKeyFromObject(pod), pod) == nil {
				pod.Finalizers = nil
				g.Expect(admin.Update(ctx, pod)).To(Succeed())
			}
		}).Should(Succeed())
	})
}

// notes of the assignment's events of a reason.
func notes(ctx context.Context, a *api.SessionAssignment, reason string) func(Gomega) []string {
	uid := a.UID
	return func(g Gomega) []string {
		var list eventsv1.EventList
		g.Expect(admin.List(ctx, &list, client.InNamespace(a.Namespace))).To(Succeed())
		var out []string
		for _, e := range list.Items {
			if e.Regarding.UID == uid && e.Reason == reason {
				out = append(out, e.Note)
			}
		}
		return out
	}
}
