package integration

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness/provisioner"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

var _ = Describe("A user's home", func() {
	It("is never mounted by two sessions at once: the second waits and shows for which", specs.Smoke, func(ctx SpecContext) {
		mine := user("one-home@example.com")
		first := awaitRunning(ctx, create(ctx, newSession("home-holder", of("developer"), mine)))
		second := create(ctx, newSession("home-waiter", of("developer"), mine))
		Eventually(ctx, reason(second, v1alpha1.ConditionScheduled)).Should(Equal(v1alpha1.ReasonHomeInUse))
		Expect(message(second)(ctx)).To(ContainSubstring("home-holder"))
		Consistently(ctx, phase(second)).Should(Equal(v1alpha1.PhasePending))
		Expect(homeOf(ctx, first).Status.MountedByUID).To(Equal(first.UID))

		By("suspending the first, which frees the home for the second")
		change(ctx, first, suspended)
		second = awaitRunning(ctx, second)
		Expect(second.Status.Placement.ClusterName).To(Equal(first.Status.Placement.ClusterName))
		Expect(second.Status.Home.ClaimName).To(Equal(first.Status.Home.ClaimName))

		By("resuming the first, which now waits for the second")
		change(ctx, first, resumed)
		Eventually(ctx, reason(first, v1alpha1.ConditionScheduled)).Should(Equal(v1alpha1.ReasonHomeInUse))
		Expect(message(first)(ctx)).To(ContainSubstring("home-waiter"))
		Expect(hub.Delete(ctx, second)).To(Succeed())
		awaitRunning(ctx, first)
	})

	It("has its user's next sessions placed in the member that holds it", func(ctx SpecContext) {
		first := awaitRunning(ctx, create(ctx, newSession("home-one", of("developer"), inRegion("us-east"), user("homer@example.com"))))
		Expect(hub.Delete(ctx, first)).To(Succeed())
		awaitGone(ctx, first)
		for i := range 3 {
			s := awaitRunning(ctx, create(ctx, newSession(fmt.Sprintf("home-%d", i), of("developer"), user("homer@example.com"))))
			Expect(s.Status.Placement.ClusterName).To(Equal("us-east"))
			Expect(hub.Delete(ctx, s)).To(Succeed())
			awaitGone(ctx, s)
		}
	})

	It("is left behind, and named, when a session requests a fresh one", func(ctx SpecContext) {
		mine := user("fresh@example.com")
		first := awaitRunning(ctx, create(ctx, newSession("stale-home", of("developer"), inRegion("us-east"), mine)))
		Expect(hub.Delete(ctx, first)).To(Succeed())
		awaitGone(ctx, first)
		second := awaitRunning(ctx, create(ctx, newSession("fresh-home", of("developer"), inRegion("eu-west"), mine,
			func(s *v1alpha1.VDISession) { s.Spec.FreshHome = true })))
		Expect(second.Status.Placement.ClusterName).To(Equal("eu-west"))
		Expect(second.Status.Home.ClaimName).NotTo(Equal(first.Status.Home.ClaimName))
		home := homeOf(ctx, second)
		Expect(home.Spec.Generation).To(BeEquivalentTo(2))
		Expect(home.Status.LeftBehind).To(HaveLen(1))
		Expect(home.Status.LeftBehind[0].ClusterName).To(Equal("us-east"))
		Expect(home.Status.LeftBehind[0].ClaimName).To(Equal(first.Status.Home.ClaimName))
		claims, err := memberNamed("us-east").ControlPlane.Client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(claims.Items).To(ContainElement(HaveField("Name", first.Status.Home.ClaimName)))
	})

	It("shows that its storage class does not allow it to grow, and runs nevertheless", func(ctx SpecContext) {
		template(ctx, "rigid-home", func(t *v1alpha1.TemplateSpec) {
			t.Home = v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser, Size: quantity("1Gi"), StorageClassName: provisioner.FixedStorageClass}
		})
		mine := user("rigid@example.com")
		first := awaitRunning(ctx, create(ctx, newSession("rigid-small", of("rigid-home"), inRegion(where), mine)))
		Expect(hub.Delete(ctx, first)).To(Succeed())
		awaitGone(ctx, first)
		growHome(ctx, "rigid-home")
		second := awaitRunning(ctx, create(ctx, newSession("rigid-large", of("rigid-home"), mine)))
		Eventually(ctx, reason(second, v1alpha1.ConditionHomeReady)).Should(Equal(v1alpha1.ReasonBoundTooSmall))
		Expect(phase(second)(ctx)).To(Equal(v1alpha1.PhaseRunning))
	})

	It("grows with its template, for the next session", func(ctx SpecContext) {
		template(ctx, "growing", func(t *v1alpha1.TemplateSpec) {
			t.Home = v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser, Size: quantity("1Gi")}
		})
		first := awaitRunning(ctx, create(ctx, newSession("small-home", of("growing"), user("grows@example.com"))))
		Expect(hub.Delete(ctx, first)).To(Succeed())
		awaitGone(ctx, first)
		growHome(ctx, "growing")
		second := awaitRunning(ctx, create(ctx, newSession("large-home", of("growing"), user("grows@example.com"))))
		member := memberNamed(second.Status.Placement.ClusterName).ControlPlane
		Eventually(ctx, func(ctx context.Context) (string, error) {
			claim, err := member.Client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, second.Status.Home.ClaimName, metav1.GetOptions{})
			q := claim.Spec.Resources.Requests[corev1.ResourceStorage]
			return q.String(), err
		}).Should(Equal("2Gi"))
		Expect(homeOf(ctx, second).Spec.Size.String()).To(Equal("2Gi"))
	})
})

// growHome doubles the home of a template, and returns once the hub has observed that: a session
// that is created earlier has the previous revision.
func growHome(ctx context.Context, name string) {
	GinkgoHelper()
	t := &v1alpha1.VDITemplate{}
	Expect(hub.Get(ctx, client.ObjectKey{Name: name}, t)).To(Succeed())
	before := t.DeepCopy()
	t.Spec.Home.Size = quantity("2Gi")
	Expect(hub.Patch(ctx, t, client.MergeFrom(before))).To(Succeed())
	Eventually(ctx, func(ctx context.Context) (int64, error) {
		now := &v1alpha1.VDITemplate{}
		err := hub.Get(ctx, client.ObjectKey{Name: name}, now)
		return now.Status.ObservedGeneration, err
	}).Should(BeNumerically(">=", t.Generation))
}

func homeOf(ctx context.Context, s *v1alpha1.VDISession) *v1alpha1.VDIHome {
	GinkgoHelper()
	home := &v1alpha1.VDIHome{}
	Expect(hub.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Status.Home.Name}, home)).To(Succeed())
	return home
}
