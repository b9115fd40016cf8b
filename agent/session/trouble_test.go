package session_test

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("A desktop that does not start", func() {
	It("shows an image that can't be pulled, and uses a better one at once", func(ctx SpecContext) {
		a := assigned(ctx, image("broken.invalid/desktop:9"))
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonImagePull, "broken.invalid/desktop:9")
		Expect(a.Status.Message).To(ContainSubstring("broken.invalid/desktop:9"))
		Eventually(ctx, events(ctx, a)).Should(ContainElement(api.EventWaiting))
		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.Desktop.Image = "registry.example.com/browser:1" })
		expectReady(ctx, a)
	}, SpecTimeout(3*time.Minute))

	It("shows a crash loop and the exit code", func(ctx SpecContext) {
		a := assigned(ctx, image("crash.invalid/desktop:1"))
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonCrashLoop, "exit code 1")
	}, SpecTimeout(3*time.Minute))

	It("shows why no node fits", func(ctx SpecContext) {
		a := assigned(ctx, func(a *api.SessionAssignment) {
			a.Spec.Desktop.Resources[corev1.ResourceMemory] = resource.MustParse("1Ti")
		})
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonUnschedulablePod, "Insufficient memory")
	}, SpecTimeout(3*time.Minute))

	It("shows that a node is being added, and that none is, as soon as that changes", func(ctx SpecContext) {
		a := assigned(ctx, func(a *api.SessionAssignment) {
			a.Spec.Desktop.Resources[corev1.ResourceMemory] = resource.MustParse("1Ti")
		})
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonUnschedulablePod, "Insufficient memory")
		pod := get(ctx, podOf(a)).UID
		groups.pods.Store(pod, observe.Growth{Group: "desktops", Usual: time.Minute})
		groups.changes <- event.GenericEvent{Object: a.DeepCopy()}
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonNodeProvisioning, "node group desktops is adding one")
		groups.pods.Store(pod, observe.Growth{Group: "desktops", Failed: "it has 1 of 1 nodes"})
		groups.changes <- event.GenericEvent{Object: a.DeepCopy()}
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonScaleUpFailed, "it has 1 of 1 nodes")
	}, SpecTimeout(3*time.Minute))

	It("makes no desktop without a limit, and does not change one that runs", func(ctx SpecContext) {
		none := func(a *api.SessionAssignment) {
			a.Spec.Desktop.Resources[corev1.ResourceMemory] = resource.MustParse("0")
		}
		a := assigned(ctx, none)
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonResourcesInvalid, "0 of memory")
		Expect(apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(a), podOf(a)))).To(BeTrue())

		b := running(ctx, home(api.HomeNone))
		pod := get(ctx, podOf(b)).UID
		edit(ctx, b, none)
		Consistently(ctx, func() types.UID { return get(ctx, podOf(b)).UID }).Should(Equal(pod))
		expectReady(ctx, b)
	}, SpecTimeout(3*time.Minute))

	It("shows what the API server refuses, and does not insist", func(ctx SpecContext) {
		a := assigned(ctx, func(a *api.SessionAssignment) {
			a.Spec.Desktop.NodeSelector = map[string]string{"not a label": "x"}
		})
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonApplyFailed, "nodeSelector")
		Consistently(func() int { return len(tally.of(a.Name)) }).Should(BeNumerically("<", 10), "%v", tally.of(a.Name))
		expectCondition(ctx, a, api.ConditionEndpointReady, metav1.ConditionTrue, "", "")
	}, SpecTimeout(3*time.Minute))

	It("shows an exceeded quota, and starts once there is capacity", func(ctx SpecContext) {
		const small = "desktops-small"
		Expect(member.EnsureNamespace(ctx, small, restricted)).To(Succeed())
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: small, Name: "none"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
		}
		Expect(admin.Create(ctx, quota)).To(Succeed())
		a := assigned(ctx, func(a *api.SessionAssignment) { a.Namespace = small })
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonQuotaExceeded, "exceeded quota")
		Expect(admin.Delete(ctx, quota)).To(Succeed())
		expectReady(ctx, a)
	}, SpecTimeout(3*time.Minute))

	It("does not change an object of its name that is not its own, and starts once that is gone", func(ctx SpecContext) {
		a := assignment()
		conflict := serviceOf(a)
		conflict.Spec.Ports = []corev1.ServicePort{{Port: 1234}}
		conflict.Labels = map[string]string{api.LabelManagedBy: api.ManagedBy}
		Expect(admin.Create(ctx, conflict)).To(Succeed())
		a = assigned(ctx, func(made *api.SessionAssignment) { *made = *a })
		expectCondition(ctx, a, api.ConditionEndpointReady, metav1.ConditionFalse, api.ReasonConflict, "Service "+a.Name)
		Expect(get(ctx, serviceOf(a)).ResourceVersion).To(Equal(conflict.ResourceVersion))
		Expect(admin.Delete(ctx, conflict)).To(Succeed())
		expectReady(ctx, a)
	}, SpecTimeout(3*time.Minute))

	It("never mounts a claim that is not its own", func(ctx SpecContext) {
		a := assignment(home(api.HomePerUser))
		claim := render.Home(a)
		claim.Labels = nil
		Expect(admin.Create(ctx, claim)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(admin.Delete(ctx, claim)).To(Succeed()) })
		a = assigned(ctx, func(made *api.SessionAssignment) { *made = *a })
		expectCondition(ctx, a, api.ConditionHomeReady, metav1.ConditionFalse, api.ReasonConflict, "not this session's home")
		Consistently(ctx, func() error {
			return admin.Get(ctx, client.ObjectKeyFromObject(a), podOf(a))
		}).Should(HaveOccurred())

		By("adding the labels that the message names")
		edit(ctx, claim, func(c *corev1.PersistentVolumeClaim) { c.Labels = render.Home(a).Labels })
		expectReady(ctx, a)
	}, SpecTimeout(3*time.Minute))

	It("accepts names of every length", func(ctx SpecContext) {
		running(ctx, home(api.HomePerSession), func(a *api.SessionAssignment) {
			a.Spec.Session.Name = strings.Repeat("x", 253)
			a.Name = api.AssignmentName(a.Spec.Session.Name, a.Spec.Session.UID)
			a.Spec.User = strings.Repeat("u", 241) + "@example.com"
			a.Spec.Desktop.Home.ClaimName = a.Name
		})
	}, SpecTimeout(3*time.Minute))
})
