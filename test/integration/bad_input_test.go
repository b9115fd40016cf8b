package integration

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

var _ = Describe("Bad input", func() {
	It("of an unknown template is reported, and runs once the template exists", specs.Smoke, func(ctx SpecContext) {
		s := create(ctx, newSession("no-template", of("nowhere")))
		Eventually(ctx, reason(s, v1alpha1.ConditionAccepted)).Should(Equal(v1alpha1.ReasonTemplateNotFound))
		Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhaseFailed))
		Eventually(ctx, message(s)).Should(ContainSubstring(`"nowhere"`))

		template(ctx, "nowhere", func(*v1alpha1.TemplateSpec) {})
		awaitRunning(ctx, s)
	})

	It("of more than the template's maximum is not accepted", specs.Smoke, func(ctx SpecContext) {
		s := create(ctx, newSession("too-much", func(s *v1alpha1.VDISession) {
			s.Spec.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64")}
		}))
		Eventually(ctx, reason(s, v1alpha1.ConditionAccepted)).Should(Equal(v1alpha1.ReasonResourcesExceedMaximum))
		Eventually(ctx, message(s)).Should(And(ContainSubstring("64"), ContainSubstring("browser")))
	})

	It("of malformed durations and quantities is rejected by the API server", specs.Smoke, func(ctx SpecContext) {
		for _, bad := range []string{`"timeout":"eternity"`, `"timeout":"1h-"`, `"resources":{"cpu":"lots"}`, `"resources":{"cpu":"-1"}`} {
			manifest := `{"apiVersion":"vdi.kasm.io/v1alpha1","kind":"VDISession","metadata":{"name":"malformed","namespace":"desktops"},"spec":{"user":"u","template":"browser",` + bad + `}}`
			Expect(fleet.Hub.ControlPlane.Apply(ctx, []byte(manifest))).To(MatchError(ContainSubstring("spec")), bad)
		}
	})

	It("of a template that no member can run shows what each lacks", func(ctx SpecContext) {
		template(ctx, "fast-home", func(t *v1alpha1.TemplateSpec) {
			size := resource.MustParse("1Gi")
			t.Home = v1alpha1.TemplateHome{Mode: v1alpha1.HomePerSession, Size: &size, StorageClassName: "fastest"}
		})
		s := create(ctx, newSession("no-storage", of("fast-home")))
		Eventually(ctx, reason(s, v1alpha1.ConditionScheduled)).Should(Equal(v1alpha1.ReasonUnschedulable))
		Eventually(ctx, message(s)).Should(And(ContainSubstring("3 "), ContainSubstring("fastest")))
		Expect(phase(s)(ctx)).To(Equal(v1alpha1.PhasePending))
	})

	It("of more than any member has capacity for is reported, and runs once there is capacity", func(ctx SpecContext) {
		template(ctx, "giant", func(t *v1alpha1.TemplateSpec) {
			t.Resources.Default = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("15")}
			t.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"gpu": "nvidia"}}
		})
		awaitReady(ctx, "us-east")
		var giants []*v1alpha1.VDISession
		for _, name := range []string{"giant-a", "giant-b", "giant-c", "giant-d", "giant-e", "giant-f", "giant-g"} {
			giants = append(giants, create(ctx, newSession(name, of("giant"))))
		}
		// us-east has four nodes and two with GPUs, of 16 cores each.
		running := func(ctx context.Context) (int, error) { return countPhase(ctx, giants, v1alpha1.PhaseRunning) }
		Eventually(ctx, running).Should(Equal(6))
		Consistently(ctx, running).Should(Equal(6))
		var waiting, one *v1alpha1.VDISession
		for _, s := range giants {
			p, err := phase(s)(ctx)
			Expect(err).NotTo(HaveOccurred())
			if p == v1alpha1.PhasePending {
				waiting = s
			} else {
				one = s
			}
		}
		Expect(waiting).NotTo(BeNil())
		Eventually(ctx, message(waiting)).Should(ContainSubstring("cpu"))
		Expect(hub.Delete(ctx, one)).To(Succeed())
		awaitRunning(ctx, waiting)
	})

	It("of a namespace that no member has admitted shows the remedy", func(ctx SpecContext) {
		s := create(ctx, newSession("shut-out", in(shut)))
		Eventually(ctx, reason(s, v1alpha1.ConditionScheduled)).Should(Equal(v1alpha1.ReasonUnschedulable))
		Eventually(ctx, message(s)).Should(ContainSubstring("kubectl vdi admit " + shut))
	})

	It("of an image that can't be pulled is reported, and does not delay the deletion", func(ctx SpecContext) {
		s := create(ctx, newSession("broken", of("broken-image")))
		Eventually(ctx, reason(s, v1alpha1.ConditionPodReady)).Should(Equal(v1alpha1.ReasonImagePull))
		Expect(message(s)(ctx)).To(ContainSubstring("broken.invalid/desktop:1"))
		Expect(hub.Delete(ctx, s)).To(Succeed())
		awaitGone(ctx, s)
	})

	DescribeTable("is none of these: odd users and names at their length limits run",
		func(ctx SpecContext, name, user string) {
			awaitRunning(ctx, create(ctx, newSession(name, func(s *v1alpha1.VDISession) { s.Spec.User = user })))
		},
		Entry("a user with @", "odd-user", "jane.doe+desk@example.com"),
		Entry("a user of 253 characters", "long-user", strings.Repeat("u", 241)+"@example.com"),
		Entry("a name of 63 characters", strings.Repeat("n", 63), "u"),
		Entry("a name of 253 characters", strings.Repeat("n", 253), "u"),
		Entry("a name with dots and digits", "1.2.3.x", "u"),
	)
})

// template creates a browser template with changes, and deletes it afterwards.
func template(ctx context.Context, name string, change func(*v1alpha1.TemplateSpec)) {
	GinkgoHelper()
	base := &v1alpha1.VDITemplate{}
	Expect(hub.Get(ctx, client.ObjectKey{Name: "browser"}, base)).To(Succeed())
	t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *base.Spec.DeepCopy()}
	change(&t.Spec)
	t.Spec.Resources.Max = nil
	Expect(hub.Create(ctx, t)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(hub.Delete(ctx, t))).To(Succeed()) })
}

func countPhase(ctx context.Context, sessions []*v1alpha1.VDISession, want v1alpha1.SessionPhase) (int, error) {
	n := 0
	for _, s := range sessions {
		p, err := phase(s)(ctx)
		if err != nil {
			return 0, err
		}
		if p == want {
			n++
		}
	}
	return n, nil
}
