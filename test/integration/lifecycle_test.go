package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

var _ = Describe("A session's life", func() {
	It("ends when its time is over, and resumes when it is extended", specs.Smoke, func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("limited", func(s *v1alpha1.VDISession) { s.Spec.Timeout = "4s" })))
		Expect(s.Status.ExpirationTime).NotTo(BeNil())
		Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhaseFailed))
		Expect(reason(s, v1alpha1.ConditionReady)(ctx)).To(Equal(v1alpha1.ReasonTimeExpired))
		Expect(message(s)(ctx)).To(ContainSubstring("spec.timeout"))
		Eventually(ctx, func(ctx context.Context) ([]string, error) { return podsOf(ctx, s.UID) }).Should(BeEmpty())

		change(ctx, s, func(s *v1alpha1.VDISession) { s.Spec.Timeout = "1h" })
		again := awaitRunning(ctx, s)
		Expect(again.Status.Placement.ClusterName).To(Equal(s.Status.Placement.ClusterName))
		Expect(again.Status.Epoch).To(Equal(s.Status.Epoch))
		Expect(time.Until(again.Status.ExpirationTime.Time)).To(BeNumerically(">", 50*time.Minute))
	})

	It("warns its user before its time is over", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("warned", func(s *v1alpha1.VDISession) { s.Spec.Timeout = "20s" })))
		Eventually(ctx, reason(s, v1alpha1.ConditionReady)).Should(Equal(v1alpha1.ReasonExpiringSoon))
		Expect(phase(s)(ctx)).To(Equal(v1alpha1.PhaseRunning))
		Eventually(ctx, eventsOf(s)).Should(ContainElement(v1alpha1.EventExpiringSoon))
	})

	It("is ended by its agent alone while the hub is away", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("alone-limited", inRegion("eu-west"), func(s *v1alpha1.VDISession) { s.Spec.Timeout = "8s" })))
		for _, r := range fleet.Hub.Replicas {
			Expect(r.Kill()).To(Succeed())
		}
		DeferCleanup(func() { Expect(restartHub()).To(Succeed()) })
		Expect(memberNamed("eu-west").Agent.Kill()).To(Succeed())
		Expect(memberNamed("eu-west").Agent.Restart()).To(Succeed())
		Eventually(ctx, func(ctx context.Context) ([]string, error) { return podsOf(ctx, s.UID) }).Should(BeEmpty())
		Expect(restartHub()).To(Succeed())
		Eventually(ctx, reason(s, v1alpha1.ConditionReady)).Should(Equal(v1alpha1.ReasonTimeExpired))
		Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhaseFailed))
	})

	It("is suspended, frees its slot, and is resumed with its home, URL and a new password", specs.Smoke, func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("suspended", of("developer"), user("rests@example.com"))))
		before := password(ctx, s)
		home := s.Status.Home
		Expect(home).NotTo(BeNil())

		change(ctx, s, suspended)
		Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhasePending))
		Eventually(ctx, func(ctx context.Context) ([]string, error) { return podsOf(ctx, s.UID) }).Should(BeEmpty())
		Eventually(ctx, reason(s, v1alpha1.ConditionPodReady)).Should(Equal(v1alpha1.ReasonSuspended))
		out, err := get(ctx, s)
		Expect(err).NotTo(HaveOccurred())
		Expect(out.Status.Endpoint).To(Equal(s.Status.Endpoint))
		Expect(out.Status.Placement.Idle).To(BeTrue())
		Expect(out.Status.ExpirationTime).To(BeNil(), "its time stands still")

		change(ctx, s, resumed)
		again := awaitRunning(ctx, s)
		Expect(again.Status.Endpoint).To(Equal(s.Status.Endpoint))
		Expect(again.Status.Home).To(Equal(home))
		Expect(again.Status.Placement.Run).To(Equal(s.Status.Placement.Run + 1))
		Expect(password(ctx, s)).NotTo(Equal(before))
	})

	It("does not resume while another uses the capacity, and does once that is gone", func(ctx SpecContext) {
		gpu := func(s *v1alpha1.VDISession) {
			s.Spec.Resources = corev1.ResourceList{"nvidia.com/gpu": *quantity("4")}
		}
		// us-east has two nodes with four GPUs each. The home keeps it there.
		template(ctx, "gpu-home", func(t *v1alpha1.TemplateSpec) {
			t.Resources.Default = corev1.ResourceList{corev1.ResourceCPU: *quantity("1"), "nvidia.com/gpu": *quantity("4")}
			t.Home = v1alpha1.TemplateHome{Mode: v1alpha1.HomePerSession, Size: quantity("1Gi")}
			t.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
		})
		first := awaitRunning(ctx, create(ctx, newSession("gpu-first", of("gpu-home"), gpu)))
		change(ctx, first, suspended)
		Eventually(ctx, func(ctx context.Context) ([]string, error) { return podsOf(ctx, first.UID) }).Should(BeEmpty())
		second := awaitRunning(ctx, create(ctx, newSession("gpu-second", of("gpu-home"), gpu)))
		awaitRunning(ctx, create(ctx, newSession("gpu-third", of("gpu-home"), gpu)))

		change(ctx, first, resumed)
		Eventually(ctx, reason(first, v1alpha1.ConditionScheduled)).Should(Equal(v1alpha1.ReasonNoCapacityToResume))
		Expect(phase(first)(ctx)).To(Equal(v1alpha1.PhasePending))
		Expect(message(first)(ctx)).To(ContainSubstring("us-east"))
		Expect(hub.Delete(ctx, second)).To(Succeed())
		again := awaitRunning(ctx, first)
		Expect(again.Status.Epoch).To(BeEquivalentTo(1))
	})

	It("fails permanently when its image can't be pulled, and is retried with the corrected template", func(ctx SpecContext) {
		template(ctx, "mistyped", func(t *v1alpha1.TemplateSpec) { t.Image = "broken.invalid/desktop:1" })
		s := create(ctx, newSession("mistyped", of("mistyped")))
		Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhaseFailed))
		Expect(reason(s, v1alpha1.ConditionProgressing)(ctx)).To(Equal(v1alpha1.ReasonImagePull))
		Expect(message(s)(ctx)).To(And(ContainSubstring("broken.invalid/desktop:1"), ContainSubstring("spec.attempt")))
		Eventually(ctx, func(ctx context.Context) ([]string, error) { return podsOf(ctx, s.UID) }).Should(BeEmpty())
		Consistently(ctx, phase(s)).Should(Equal(v1alpha1.PhaseFailed))

		t := &v1alpha1.VDITemplate{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: "mistyped"}, t)).To(Succeed())
		before := t.DeepCopy()
		t.Spec.Image = "docker.io/kasmweb/chrome:1.16.0"
		Expect(hub.Patch(ctx, t, client.MergeFrom(before))).To(Succeed())
		change(ctx, s, func(s *v1alpha1.VDISession) { s.Spec.Attempt = 1 })
		again := awaitRunning(ctx, s)
		Expect(again.Status.Attempt).To(BeEquivalentTo(1))
		Expect(reason(s, v1alpha1.ConditionProgressing)(ctx)).To(BeEmpty())
	})

	It("that is pending fails with its template, and is pending again once that is corrected", func(ctx SpecContext) {
		template(ctx, "on-and-off", func(*v1alpha1.TemplateSpec) {})
		s := create(ctx, newSession("on-and-off", of("on-and-off"), inRegion("atlantis")))
		for _, step := range []struct {
			state v1alpha1.TemplateState
			phase v1alpha1.SessionPhase
		}{
			{v1alpha1.TemplateEnabled, v1alpha1.PhasePending},
			{v1alpha1.TemplateDisabled, v1alpha1.PhaseFailed},
			{v1alpha1.TemplateHidden, v1alpha1.PhasePending},
		} {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"state":"`+string(step.state)+`"}}`))
			Expect(hub.Patch(ctx, &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: "on-and-off"}}, patch)).To(Succeed())
			Eventually(ctx, phase(s)).Should(Equal(step.phase))
		}
	})

	It("does not change with its template, which counts its sessions by revision and can't vanish", func(ctx SpecContext) {
		template(ctx, "revised", func(*v1alpha1.TemplateSpec) {})
		old := awaitRunning(ctx, create(ctx, newSession("old-revision", of("revised"))))
		t := &v1alpha1.VDITemplate{}
		key := client.ObjectKey{Name: "revised"}
		Expect(hub.Get(ctx, key, t)).To(Succeed())
		before := t.DeepCopy()
		t.Spec.Env = append(t.Spec.Env, v1alpha1.EnvVar{Name: "NEW", Value: "yes"})
		Expect(hub.Patch(ctx, t, client.MergeFrom(before))).To(Succeed())
		young := awaitRunning(ctx, create(ctx, newSession("new-revision", of("revised"))))
		Expect(young.Status.TemplateRevision).NotTo(Equal(old.Status.TemplateRevision))
		Eventually(ctx, func(ctx context.Context) ([]v1alpha1.RevisionSessions, error) {
			err := hub.Get(ctx, key, t)
			return t.Status.Revisions, err
		}).Should(ConsistOf(
			v1alpha1.RevisionSessions{Revision: old.Status.TemplateRevision, Sessions: 1},
			v1alpha1.RevisionSessions{Revision: young.Status.TemplateRevision, Sessions: 1},
		))

		Expect(hub.Delete(ctx, t)).To(Succeed())
		late := create(ctx, newSession("late", of("revised")))
		Eventually(ctx, reason(late, v1alpha1.ConditionAccepted)).Should(Equal(v1alpha1.ReasonTemplateTerminating))
		Consistently(ctx, phase(old)).Should(Equal(v1alpha1.PhaseRunning))
		Expect(hub.Get(ctx, key, t)).To(Succeed(), "it is in use")
		for _, s := range []*v1alpha1.VDISession{old, young, late} {
			Expect(hub.Delete(ctx, s)).To(Succeed())
			awaitGone(ctx, s)
		}
		Eventually(ctx, func(ctx context.Context) bool { return apierrors.IsNotFound(hub.Get(ctx, key, t)) }).Should(BeTrue())
	})

	It("recreated under its name by another user gets nothing of its predecessor", func(ctx SpecContext) {
		one := awaitRunning(ctx, create(ctx, newSession("heir", of("developer"), inRegion("eu-west"), user("one@example.com"))))
		secret := password(ctx, one)
		Expect(hub.Delete(ctx, one)).To(Succeed())
		awaitGone(ctx, one)
		two := awaitRunning(ctx, create(ctx, newSession("heir", of("developer"), inRegion("eu-west"), user("two@example.com"))))
		Expect(two.Status.Endpoint).NotTo(Equal(one.Status.Endpoint))
		Expect(two.Status.Home.ClaimName).NotTo(Equal(one.Status.Home.ClaimName))
		Expect(two.Status.AccessSecretName).NotTo(Equal(one.Status.AccessSecretName))
		Expect(password(ctx, two)).NotTo(Equal(secret))
		Expect(podsOf(ctx, one.UID)).To(BeEmpty())
		Expect(podsOf(ctx, two.UID)).To(HaveLen(1))
	})

	It("whose node is lost is removed by a forced cleanup of an operator, and not before", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("stranded", inRegion("ap-south"))))
		cp := memberNamed("ap-south").ControlPlane
		name := v1alpha1.AssignmentName(s.Name, s.UID)
		pod, err := cp.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(cp.LoseNode(ctx, pod.Spec.NodeName)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(cp.RestoreNode(ctx, pod.Spec.NodeName)).To(Succeed()) })
		Eventually(ctx, reason(s, v1alpha1.ConditionPodReady)).Should(Equal(v1alpha1.ReasonNodeLost))

		Expect(hub.Delete(ctx, s)).To(Succeed())
		Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhaseTerminating))
		Eventually(ctx, message(s)).Should(ContainSubstring(pod.Spec.NodeName))
		Consistently(ctx, phase(s)).Should(Equal(v1alpha1.PhaseTerminating))
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"vdi.kasm.io/force-cleanup":"the node burned down"}}}`))
		Expect(hub.Patch(ctx, s, patch)).To(Succeed())
		awaitGone(ctx, s)
		Eventually(ctx, func(ctx context.Context) ([]string, error) { return podsOf(ctx, s.UID) }).Should(BeEmpty())
	})

	It("of mode Hold does not stop by a forced deletion of its Pod and its Node, and does by an operator's annotation", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("forced", inRegion("ap-south"), func(s *v1alpha1.VDISession) {
			s.Spec.Failover.Mode = v1alpha1.FailoverHold
		})))
		core := memberNamed("ap-south").ControlPlane.Client.CoreV1()
		pods, name := core.Pods(namespace), v1alpha1.AssignmentName(s.Name, s.UID)
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		node, err := core.Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(memberNamed("ap-south").ControlPlane.LoseNode(ctx, node.Name)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, Annotations: node.Annotations}, Spec: node.Spec, Status: node.Status}
			_, err := core.Nodes().Create(ctx, again, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		})
		Expect(core.Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{})).To(Succeed())
		Expect(pods.Delete(ctx, name, *metav1.NewDeleteOptions(0))).To(Succeed())
		Expect(hub.Delete(ctx, s)).To(Succeed())

		Eventually(ctx, message(s)).Should(ContainSubstring("kubectl annotate pod -n " + namespace + " " + name))
		Consistently(ctx, phase(s)).Should(Equal(v1alpha1.PhaseTerminating))
		assertion := []byte(`{"metadata":{"annotations":{"vdi.kasm.io/force-cleanup":"the machine is off"}}}`)
		_, err = pods.Patch(ctx, name, types.MergePatchType, assertion, metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		awaitGone(ctx, s)
	})

	It("that may run twice starts on another node once its own has been lost for long", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("restarted", inRegion("ap-south"))))
		cp := memberNamed("ap-south").ControlPlane
		pods, name := cp.Client.CoreV1().Pods(namespace), v1alpha1.AssignmentName(s.Name, s.UID)
		pod, err := pods.Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(cp.LoseNode(ctx, pod.Spec.NodeName)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(cp.RestoreNode(ctx, pod.Spec.NodeName)).To(Succeed()) })
		Eventually(ctx, func(ctx context.Context) (string, error) {
			again, err := pods.Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && again.UID == pod.UID {
				return "", nil
			}
			return again.Spec.NodeName, err
		}).WithTimeout(3 * time.Minute).ShouldNot(BeElementOf("", pod.Spec.NodeName))
		awaitRunning(ctx, s)
	}, SpecTimeout(5*time.Minute))
})
