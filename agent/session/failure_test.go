package session_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/session"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("A failure", Serial, func() {
	impatient := func(o *session.Options) {
		o.RetryLimits = observe.RetryLimits{FailAfter: 2 * time.Second, Restarts: 2, Endings: 2}
	}

	DescribeTable("that does not pass is reported, and ended by a retry",
		func(ctx SpecContext, bad, reason string) {
			withAgent(impatient)
			a := assigned(ctx, image(bad))
			expectFailed(ctx, a, reason)
			Eventually(ctx, events(ctx, a)).Should(ContainElement(api.EventFailed))
			before := len(tally.of(a.Name))
			Consistently(func() []string { return tally.of(a.Name)[before:] }).Should(BeEmpty(), "it is tried nevertheless")

			By("correcting it and retrying")
			edit(ctx, a, func(a *api.SessionAssignment) {
				a.Spec.Desktop.Image = "registry.example.com/browser:1"
				a.Spec.Attempt++
			})
			expectReady(ctx, a)
			Expect(a.Status.Failure).To(BeNil())
			Expect(a.Status.Conditions).To(HaveLen(len(observe.Kinds)))
		},
		Entry("an image that can't be pulled", "broken.invalid/desktop:1", api.ReasonImagePull, SpecTimeout(3*time.Minute)),
		Entry("an image whose name is none", "badname.invalid/desktop:1", api.ReasonImagePull, SpecTimeout(3*time.Minute)),
		Entry("a desktop that ends at each start", "crash.invalid/desktop:1", api.ReasonCrashLoop, SpecTimeout(3*time.Minute)),
		Entry("a desktop that needs more memory", "oom.invalid/desktop:1", api.ReasonOutOfMemory, SpecTimeout(3*time.Minute)),
	)

	It("of an object that is invalid for the API server is reported at once", func(ctx SpecContext) {
		a := assigned(ctx, func(a *api.SessionAssignment) {
			a.Spec.Desktop.NodeSelector = map[string]string{"not a label": "x"}
		})
		expectFailed(ctx, a, api.ReasonApplyFailed)
		Expect(a.Status.Failure.Message).To(ContainSubstring("nodeSelector"))
		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.Desktop.NodeSelector, a.Spec.Attempt = nil, 1 })
		expectReady(ctx, a)
	}, SpecTimeout(3*time.Minute))

	It("outlives its agent", func(ctx SpecContext) {
		withAgent(impatient)
		a := assigned(ctx, image("broken.invalid/desktop:1"))
		expectFailed(ctx, a, api.ReasonImagePull)
		withAgent(impatient)
		Consistently(ctx, func(g Gomega) {
			g.Expect(get(ctx, a).FailedPermanently()).To(BeTrue())
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(a), podOf(a))).NotTo(Succeed())
		}).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("is not required: a higher attempt replaces a running desktop", func(ctx SpecContext) {
		a := running(ctx)
		uid := get(ctx, podOf(a)).UID
		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.Attempt++ })
		Eventually(ctx, func(g Gomega) {
			pod := podOf(a)
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			g.Expect(pod.UID).NotTo(Equal(uid))
			g.Expect(pod.Annotations).To(HaveKeyWithValue(api.AnnotationAttempt, "1"))
		}).Should(Succeed())
		expectReady(ctx, a)
	}, SpecTimeout(3*time.Minute))

	It("of a node is reported, and the desktop is waited for", func(ctx SpecContext) {
		a := running(ctx)
		pod := get(ctx, podOf(a))
		nodes.lost.Store(pod.Spec.NodeName, true)
		DeferCleanup(func() { nodes.lost.Delete(pod.Spec.NodeName) })
		for i := range pod.Status.Conditions {
			if pod.Status.Conditions[i].Type == corev1.PodReady {
				pod.Status.Conditions[i].Status = corev1.ConditionFalse
			}
		}
		Expect(admin.Status().Update(ctx, pod)).To(Succeed())
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonNodeLost, pod.Spec.NodeName)
		Expect(get(ctx, podOf(a)).DeletionTimestamp).To(BeNil())
	}, SpecTimeout(3*time.Minute))
})

// expectFailed waits for a failure, and for the Pod to be gone.
func expectFailed(ctx context.Context, a *api.SessionAssignment, reason string) {
	GinkgoHelper()
	expectCondition(ctx, a, api.ConditionProgressing, metav1.ConditionFalse, reason, "raise spec.attempt")
	Expect(a.FailedPermanently()).To(BeTrue())
	expectGone(ctx, podOf(a))
	expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, reason, "raise spec.attempt")
}
