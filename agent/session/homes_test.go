package session_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness/provisioner"
)

func homeSize(size string) func(*api.SessionAssignment) {
	return func(a *api.SessionAssignment) { a.Spec.Desktop.Home.Size = ptr.To(resource.MustParse(size)) }
}

func retained(keep api.Duration) func(*api.SessionAssignment) {
	return func(a *api.SessionAssignment) {
		a.Spec.Desktop.Home.Retention, a.Spec.Desktop.Home.RetentionTime = api.RetentionRetain, keep
	}
}

func sizeOf(ctx context.Context, a *api.SessionAssignment) func() string {
	return func() string {
		q := get(ctx, claimOf(a)).Spec.Resources.Requests[corev1.ResourceStorage]
		return q.String()
	}
}

var _ = Describe("A home", func() {
	It("grows, and never shrinks", func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerSession), homeSize("1Gi"))
		edit(ctx, a, homeSize("2Gi"))
		Eventually(ctx, sizeOf(ctx, a)).Should(Equal("2Gi"))
		before := len(tally.of(a.Name))
		edit(ctx, a, homeSize("1Gi"))
		Consistently(ctx, sizeOf(ctx, a)).Should(Equal("2Gi"))
		for _, line := range tally.of(a.Name)[before:] {
			Expect(line).NotTo(ContainSubstring("persistentvolumeclaims"))
		}
		expectCondition(ctx, a, api.ConditionHomeReady, metav1.ConditionTrue, api.ReasonBound, "")
	}, SpecTimeout(3*time.Minute))

	It("that can't grow is used as it is, which is shown", func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerSession), homeSize("1Gi"), func(a *api.SessionAssignment) {
			a.Spec.Desktop.Home.StorageClassName = provisioner.FixedStorageClass
		})
		edit(ctx, a, homeSize("2Gi"))
		expectCondition(ctx, a, api.ConditionHomeReady, metav1.ConditionTrue, api.ReasonBoundTooSmall, "1Gi")
		get(ctx, podOf(a))
		before := len(tally.of(a.Name))
		Consistently(func() int { return len(tally.of(a.Name)) - before }).Should(BeNumerically("<=", 1), "it insists")
	}, SpecTimeout(3*time.Minute))

	It("of a user is never mounted by two Pods at once, and the second shows which session it waits for", func(ctx SpecContext) {
		first := running(ctx, home(api.HomePerUser))
		second := assigned(ctx, func(a *api.SessionAssignment) { a.Spec.Desktop.Home = first.Spec.Desktop.Home })
		Expect(get(ctx, claimOf(second)).Labels).To(HaveKeyWithValue(render.LabelHomeMode, "PerUser"))
		expectCondition(ctx, second, api.ConditionHomeReady, metav1.ConditionFalse, api.ReasonHomeInUse, first.Name)
		Consistently(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(second), podOf(second)) }).
			WithTimeout(time.Second).ShouldNot(Succeed())
		By("suspending the first")
		edit(ctx, first, suspended)
		expectReady(ctx, second)
	}, SpecTimeout(3*time.Minute))

	It("of a user is mounted once by two that come at once", func(ctx SpecContext) {
		a := assignment(home(api.HomePerUser))
		b := assignment(func(b *api.SessionAssignment) { b.Spec.Desktop.Home = a.Spec.Desktop.Home })
		each(ctx, []*api.SessionAssignment{a, b}, func(a *api.SessionAssignment) error { return admin.Create(ctx, a) })
		DeferCleanup(func(ctx SpecContext) {
			for _, a := range []*api.SessionAssignment{a, b} {
				Expect(admin.Delete(ctx, a)).To(Succeed())
				expectGone(ctx, a)
			}
		})
		pods := func() int {
			var list corev1.PodList
			Expect(admin.List(ctx, &list, client.InNamespace(a.Namespace))).To(Succeed())
			n := 0
			for i := range list.Items {
				if name := list.Items[i].Name; name == a.Name || name == b.Name {
					n++
				}
			}
			return n
		}
		Eventually(ctx, pods).Should(Equal(1))
		Consistently(ctx, pods).Should(Equal(1))
	}, SpecTimeout(3*time.Minute))

	It("of a session that is to be retained outlives it, and is annotated", func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerSession), retained("720h"))
		claim := get(ctx, claimOf(a))
		Expect(claim.Annotations).To(HaveKeyWithValue(api.AnnotationRetention, "720h"))
		Expect(claim.Annotations).NotTo(HaveKey(api.AnnotationLastUse))
		edit(ctx, claimOf(a), func(c *corev1.PersistentVolumeClaim) {
			c.Annotations[api.AnnotationRetention], c.Annotations[api.AnnotationLastUse] = "1s", "2020-01-01T00:00:00Z"
		})
		Eventually(ctx, func() map[string]string { return get(ctx, claimOf(a)).Annotations }).Should(And(
			HaveKeyWithValue(api.AnnotationRetention, "720h"), Not(HaveKey(api.AnnotationLastUse))), "drift")
		Expect(admin.Delete(ctx, a)).To(Succeed())
		expectGone(ctx, a)
		claim = get(ctx, claim)
		Expect(claim.DeletionTimestamp).To(BeNil())
		stamped, err := time.Parse(time.RFC3339, claim.Annotations[api.AnnotationLastUse])
		Expect(err).NotTo(HaveOccurred())
		Expect(stamped).To(BeTemporally("~", time.Now(), time.Minute))
		Expect(admin.Delete(ctx, claim)).To(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("without a retention time is not annotated, and kept", func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerSession), retained(""))
		claim := get(ctx, claimOf(a))
		Expect(admin.Delete(ctx, a)).To(Succeed())
		expectGone(ctx, a)
		Consistently(ctx, func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(claim), claim)).To(Succeed())
			g.Expect(claim.DeletionTimestamp).To(BeNil())
			g.Expect(claim.Annotations).NotTo(HaveKey(api.AnnotationLastUse))
		}).WithTimeout(time.Second).Should(Succeed())
		Expect(admin.Delete(ctx, claim)).To(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("that is used again loses the annotation of its last use", func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerUser), retained("720h"))
		claim := get(ctx, claimOf(a))
		Expect(admin.Delete(ctx, a)).To(Succeed())
		expectGone(ctx, a)
		Expect(get(ctx, claim).Annotations).To(HaveKey(api.AnnotationLastUse))
		b := running(ctx, func(b *api.SessionAssignment) { b.Spec.Desktop.Home = a.Spec.Desktop.Home })
		Eventually(ctx, func() map[string]string { return get(ctx, claim).Annotations }).ShouldNot(HaveKey(api.AnnotationLastUse))
		Expect(admin.Delete(ctx, b)).To(Succeed())
		expectGone(ctx, b)
		Expect(get(ctx, claim).Annotations).To(HaveKey(api.AnnotationLastUse))
		Expect(admin.Delete(ctx, claim)).To(Succeed())
	}, SpecTimeout(3*time.Minute))
})
