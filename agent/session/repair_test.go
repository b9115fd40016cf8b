package session_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

var _ = Describe("Repair", func() {
	It("reverts drift, and keeps what others added", specs.Smoke, func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerSession))
		edit(ctx, serviceOf(a), func(s *corev1.Service) {
			s.Spec.Selector = map[string]string{"app": "other"}
			s.Spec.Ports[0].TargetPort = intstr.FromInt32(1)
			s.Spec.Type = corev1.ServiceTypeNodePort
			s.Labels["someone"] = "else"
		})
		edit(ctx, ingressOf(a), func(i *networkingv1.Ingress) {
			i.Spec.Rules[0].Host = "evil.example.com"
			i.Annotations = map[string]string{"cert": "x"}
			i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{a.Spec.Host}, SecretName: "tls"}}
		})
		edit(ctx, podOf(a), func(p *corev1.Pod) {
			p.Labels[api.LabelSessionUID] = "other"
			p.Spec.Containers[0].Image = "registry.example.com/evil:1"
		})
		Eventually(ctx, func(g Gomega) {
			s := get(ctx, serviceOf(a))
			g.Expect(s.Spec.Selector).To(HaveKeyWithValue(api.LabelAssignment, a.Name))
			g.Expect(s.Spec.Type).To(Equal(corev1.ServiceTypeClusterIP))
			g.Expect(s.Spec.Ports[0].TargetPort).To(Equal(intstr.FromString("http")))
			g.Expect(s.Labels).To(HaveKeyWithValue("someone", "else"))
			i := get(ctx, ingressOf(a))
			g.Expect(i.Spec.Rules[0].Host).To(Equal(a.Spec.Host))
			g.Expect(i.Annotations).To(HaveKey(api.AnnotationSession))
			g.Expect(i.Annotations).To(HaveKeyWithValue("cert", "x"))
			g.Expect(i.Spec.TLS).To(HaveLen(1))
			p := get(ctx, podOf(a))
			g.Expect(p.Labels).To(HaveKeyWithValue(api.LabelSessionUID, string(a.Spec.Session.UID)))
			g.Expect(p.Spec.Containers[0].Image).To(Equal(a.Spec.Desktop.Image))
		}).Should(Succeed())
		expectReady(ctx, a)
	}, SpecTimeout(3*time.Minute))

	It("restores the labels or the owner of a child", func(ctx SpecContext) {
		a := running(ctx)
		uid := get(ctx, podOf(a)).UID
		edit(ctx, podOf(a), func(p *corev1.Pod) { p.Labels = nil })
		edit(ctx, serviceOf(a), func(s *corev1.Service) { s.OwnerReferences = nil })
		Eventually(ctx, func(g Gomega) {
			p := get(ctx, podOf(a))
			g.Expect(p.UID).To(Equal(uid))
			g.Expect(p.Labels).To(HaveKeyWithValue(api.LabelManagedBy, api.ManagedBy))
			g.Expect(metav1.IsControlledBy(get(ctx, serviceOf(a)), a)).To(BeTrue())
		}).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("recreates what was deleted", func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerSession))
		for _, o := range []client.Object{podOf(a), serviceOf(a), ingressOf(a)} {
			uid := get(ctx, o).GetUID()
			Expect(admin.Delete(ctx, o)).To(Succeed())
			Eventually(ctx, func(g Gomega) {
				g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
				g.Expect(o.GetUID()).NotTo(Equal(uid))
			}).Should(Succeed(), "%T", o)
		}
		expectReady(ctx, a)
	}, SpecTimeout(3*time.Minute))

	It("recreates a claim that was deleted while no desktop used it", func(ctx SpecContext) {
		a := assigned(ctx, home(api.HomePerSession), func(a *api.SessionAssignment) { a.Spec.RunState = api.ModeSuspended })
		expectCondition(ctx, a, api.ConditionHomeReady, metav1.ConditionTrue, api.ReasonBound, "")
		claim := get(ctx, claimOf(a))
		uid := claim.UID
		Expect(admin.Delete(ctx, claim)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
			g.Expect(claim.UID).NotTo(Equal(uid))
			g.Expect(claim.Status.Phase).To(Equal(corev1.ClaimBound))
		}).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("reverts drift of a status, labels and a finalizer of the assignment", func(ctx SpecContext) {
		a := running(ctx)
		edit(ctx, a.DeepCopy(), func(a *api.SessionAssignment) { a.Labels = map[string]string{"team": "x"} })
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"nodeName":"elsewhere"}}`))
		Expect(admin.Status().Patch(ctx, a.DeepCopy(), patch)).To(Succeed())
		edit(ctx, a.DeepCopy(), func(a *api.SessionAssignment) { a.Finalizers = nil })
		Eventually(ctx, func(g Gomega) {
			now := get(ctx, a.DeepCopy())
			g.Expect(now.Status.NodeName).To(Equal(get(ctx, podOf(a)).Spec.NodeName))
			g.Expect(now.Finalizers).To(ContainElement(api.AssignmentFinalizer))
			g.Expect(now.Labels).To(HaveKeyWithValue(api.LabelManagedBy, api.ManagedBy))
			g.Expect(now.Labels).To(HaveKeyWithValue(api.LabelSessionUID, string(a.Spec.Session.UID)))
			g.Expect(now.Labels).To(HaveKeyWithValue("team", "x"))
		}).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("replaces a Pod that was evicted", func(ctx SpecContext) {
		a := running(ctx)
		pod := get(ctx, podOf(a))
		uid := pod.UID
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "The node was low on memory."
		pod.Status.Conditions = nil
		Expect(admin.Status().Update(ctx, pod)).To(Succeed())
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonEvicted, "low on memory")
		expectReady(ctx, a)
		Expect(get(ctx, podOf(a)).UID).NotTo(Equal(uid))
	}, SpecTimeout(3*time.Minute))
})
