package integration

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// where is the member in which the reasons are shown.
const where = "ap-south"

// reasonCase is a session that must show one reason.
type reasonCase struct {
	condition, reason string
	// template changes the browser template.
	template func(*v1alpha1.TemplateSpec)
	session  func(*v1alpha1.VDISession)
	// then is called once the session runs; alone means that this disturbs other sessions.
	then  func(ctx context.Context, s *v1alpha1.VDISession)
	alone bool
	// message is part of the session's message.
	message string
	// phase is the phase in which the session stays; "" if that is not checked.
	phase v1alpha1.SessionPhase
}

func image(name string) func(*v1alpha1.TemplateSpec) {
	return func(t *v1alpha1.TemplateSpec) { t.Image = name }
}

func homed(class string) func(*v1alpha1.TemplateSpec) {
	return func(t *v1alpha1.TemplateSpec) {
		t.Home = v1alpha1.TemplateHome{Mode: v1alpha1.HomePerSession, Size: quantity("1Gi"), StorageClassName: class}
	}
}

// reasons are the cases, all in one member. Their sessions are created at once, except those that
// would disturb the others.
var reasons = []reasonCase{
	// What the template does not allow.
	{condition: v1alpha1.ConditionAccepted, reason: v1alpha1.ReasonTemplateDisabled, phase: v1alpha1.PhaseFailed,
		template: func(t *v1alpha1.TemplateSpec) { t.State = v1alpha1.TemplateDisabled }, message: "Disabled"},
	{condition: v1alpha1.ConditionAccepted, reason: v1alpha1.ReasonUserNotAllowed, phase: v1alpha1.PhaseFailed,
		template: func(t *v1alpha1.TemplateSpec) { t.AllowedGroups = []string{"staff"} }, message: "allowedGroups",
		session: func(s *v1alpha1.VDISession) { s.Spec.Groups = []string{"guests"} }},
	{condition: v1alpha1.ConditionAccepted, reason: v1alpha1.ReasonNamespaceNotAllowed, phase: v1alpha1.PhaseFailed,
		template: func(t *v1alpha1.TemplateSpec) { t.AllowedNamespaces = []string{"other"} }, message: "allowedNamespaces"},
	{condition: v1alpha1.ConditionAccepted, reason: v1alpha1.ReasonTimeoutExceedsMaximum, phase: v1alpha1.PhaseFailed,
		session: func(s *v1alpha1.VDISession) { s.Spec.Timeout = "0s" }, message: "unlimited"},
	{condition: v1alpha1.ConditionAccepted, reason: v1alpha1.ReasonIdleTimeoutExceedsMaximum, phase: v1alpha1.PhaseFailed,
		template: func(t *v1alpha1.TemplateSpec) { t.IdleTimeout = v1alpha1.TimeLimit{Max: "1h"} },
		session:  func(s *v1alpha1.VDISession) { s.Spec.IdleTimeout = "2h" }, message: "2h"},
	{condition: v1alpha1.ConditionAccepted, reason: v1alpha1.ReasonPolicyNotFound, phase: v1alpha1.PhaseFailed,
		session: func(s *v1alpha1.VDISession) { s.Spec.Placement.Policy = "nowhere" }, message: "nowhere"},
	{condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonSuspended, phase: v1alpha1.PhasePending, session: suspended},
	{condition: v1alpha1.ConditionScheduled, reason: v1alpha1.ReasonReleasing,
		template: func(*v1alpha1.TemplateSpec) {}, then: deleteAssignment},
	// Homes that are not ready.
	{condition: v1alpha1.ConditionHomeReady, reason: v1alpha1.ReasonNoHome},
	{condition: v1alpha1.ConditionHomeReady, reason: v1alpha1.ReasonBinding, phase: v1alpha1.PhaseCreating,
		template: homed("stalled"), message: "stalled"},
	{condition: v1alpha1.ConditionHomeReady, reason: v1alpha1.ReasonClaimLost,
		template: homed(""), then: loseVolume, message: "restore"},
	// Desktops that do not run, and how they end.
	{condition: v1alpha1.ConditionPodReady, reason: v1alpha1.ReasonStarting, phase: v1alpha1.PhaseRunning, template: image("slow.invalid/desktop:25s")},
	{condition: v1alpha1.ConditionProgressing, reason: v1alpha1.ReasonImagePull, phase: v1alpha1.PhaseFailed,
		template: image("badname.invalid/desktop:1"), message: "spec.attempt"},
	{condition: v1alpha1.ConditionProgressing, reason: v1alpha1.ReasonCrashLoop, phase: v1alpha1.PhaseFailed,
		template: image("crash.invalid/desktop:1"), message: "spec.attempt"},
	{condition: v1alpha1.ConditionProgressing, reason: v1alpha1.ReasonOutOfMemory, phase: v1alpha1.PhaseFailed,
		template: image("oom.invalid/desktop:1"), message: "memory"},
	{condition: v1alpha1.ConditionProgressing, reason: v1alpha1.ReasonContainerError, phase: v1alpha1.PhaseFailed,
		template: image("config-error.invalid/desktop:1"), message: "spec.attempt"},
	{condition: v1alpha1.ConditionPodReady, reason: v1alpha1.ReasonEvicted,
		template: image("evicted.invalid/desktop:1"), message: "low on resource"},
	{condition: v1alpha1.ConditionPodReady, reason: v1alpha1.ReasonPodFailed, then: failPod},
	{condition: v1alpha1.ConditionPodReady, reason: v1alpha1.ReasonPodTerminating, then: deletePodSlowly},
	{condition: v1alpha1.ConditionPodReady, reason: v1alpha1.ReasonUnschedulablePod, phase: v1alpha1.PhaseCreating,
		alone: true, then: cordonAndDelete, message: "No node fits"},
	{condition: v1alpha1.ConditionPodReady, reason: v1alpha1.ReasonQuotaExceeded, phase: v1alpha1.PhaseCreating,
		alone: true, then: quotaAndDelete, message: "quota"},
	{condition: v1alpha1.ConditionPodReady, reason: v1alpha1.ReasonApplyFailed,
		alone: true, then: limitAndDelete, message: "maximum"},
	{condition: v1alpha1.ConditionPodReady, reason: v1alpha1.ReasonPodNotReady, phase: v1alpha1.PhaseCreating,
		then: stopAnswering, message: "does not answer"},
	{condition: v1alpha1.ConditionPodReady, reason: v1alpha1.ReasonIdleSoon, phase: v1alpha1.PhaseFailed,
		template: func(t *v1alpha1.TemplateSpec) { t.IdleTimeout.Default = "20s" }, then: useOnce},
	{condition: v1alpha1.ConditionEndpointReady, reason: v1alpha1.ReasonEndpointPending, then: holdService, message: "Service"},
	{condition: v1alpha1.ConditionEndpointReady, reason: v1alpha1.ReasonConflict, phase: v1alpha1.PhaseCreating,
		then: takeService, message: "Service"},
}

var _ = Describe("A reason", Ordered, ContinueOnFailure, func() {
	sessions := map[string]*v1alpha1.VDISession{}
	title := func(c reasonCase) string { return c.reason + " of " + c.condition }

	BeforeAll(func(ctx SpecContext) {
		for _, c := range reasons {
			if !c.alone {
				sessions[title(c)] = c.begin(ctx)
			}
		}
	})

	for _, c := range reasons {
		It(title(c), func(ctx SpecContext) {
			s := sessions[title(c)]
			if s == nil {
				s = c.begin(ctx)
			}
			if c.then != nil {
				c.then(ctx, awaitRunning(ctx, s))
			}
			// Some last for a moment: what the watch of the hub has observed counts.
			Eventually(ctx, func() bool { return seen.showed(s.UID, c.condition, c.reason) }).Should(BeTrue())
			if c.message != "" {
				Eventually(ctx, message(s)).Should(ContainSubstring(c.message))
			}
			if c.phase != "" {
				Eventually(ctx, phase(s)).Should(Equal(c.phase))
			}
		})
	}
})

// begin creates the case's session.
func (c reasonCase) begin(ctx context.Context) *v1alpha1.VDISession {
	GinkgoHelper()
	name := "why-" + v1alpha1.AssignmentName(c.condition+c.reason, types.UID(c.reason))
	s := newSession(name, inRegion(where), user(name+"@example.com"))
	if c.template != nil {
		template(ctx, name, c.template)
		s.Spec.Template = name
	}
	if c.session != nil {
		c.session(s)
	}
	return create(ctx, s)
}

func objectsOf(s *v1alpha1.VDISession) (client.Client, client.ObjectKey) {
	return clientOf(memberNamed(where).ControlPlane), client.ObjectKey{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}
}

func podOf(ctx context.Context, s *v1alpha1.VDISession) *corev1.Pod {
	GinkgoHelper()
	c, key := objectsOf(s)
	pod := &corev1.Pod{}
	Expect(c.Get(ctx, key, pod)).To(Succeed())
	return pod
}

func deletePod(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	c, _ := objectsOf(s)
	Expect(c.Delete(ctx, podOf(ctx, s))).To(Succeed())
}

// deleteAssignment deletes the assignment by hand, with a Pod that stops slowly.
func deleteAssignment(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	c, key := objectsOf(s)
	stopSlowly(ctx, s)
	Expect(c.Delete(ctx, &v1alpha1.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})).To(Succeed())
}

func loseVolume(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	c, key := objectsOf(s)
	claim := &corev1.PersistentVolumeClaim{}
	Expect(c.Get(ctx, key, claim)).To(Succeed())
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName}}
	// The finalizer of a volume in use is restored unless the volume is being deleted.
	Expect(c.Delete(ctx, volume)).To(Succeed())
	Expect(c.Patch(ctx, volume, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
}

func failPod(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	c, _ := objectsOf(s)
	pod := podOf(ctx, s)
	Expect(c.Status().Patch(ctx, pod, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Failed","reason":"UnexpectedAdmissionError"}}`)))).To(Succeed())
}

func deletePodSlowly(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	stopSlowly(ctx, s)
	deletePod(ctx, s)
}

// stopSlowly makes the Pod take longer to stop than a status is delayed.
func stopSlowly(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	c, _ := objectsOf(s)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"harness.vdi.kasm.io/stop-delay":"12s"}}}`))
	Expect(c.Patch(ctx, podOf(ctx, s), patch)).To(Succeed())
}

// stopAnswering sets the status of a Pod whose probe fails.
func stopAnswering(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	c, _ := objectsOf(s)
	pod := podOf(ctx, s)
	for i := range pod.Status.Conditions {
		if t := pod.Status.Conditions[i].Type; t == corev1.PodReady || t == corev1.ContainersReady {
			pod.Status.Conditions[i].Status = corev1.ConditionFalse
		}
	}
	pod.Status.ContainerStatuses[0].Ready = false
	Expect(c.Status().Update(ctx, pod)).To(Succeed())
}

// useOnce reports activity of the desktop once.
func useOnce(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	c, _ := objectsOf(s)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"vdi.kasm.io/activity":"a key was pressed"}}}`))
	Expect(c.Patch(ctx, podOf(ctx, s), patch)).To(Succeed())
}

// holdService deletes the session's Service, which another finalizer keeps.
func holdService(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	c, key := objectsOf(s)
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	Expect(c.Patch(ctx, svc, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/load-balancer"]}}`)))).To(Succeed())
	Expect(c.Delete(ctx, svc)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(c.Patch(ctx, svc, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))).To(Succeed())
	})
}

func cordonAndDelete(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	nodes := memberNamed(where).ControlPlane.Client.CoreV1().Nodes()
	cordon := func(ctx context.Context, on bool) {
		GinkgoHelper()
		list, err := nodes.List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for i := range list.Items {
			_, err := nodes.Patch(ctx, list.Items[i].Name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, on), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	}
	cordon(ctx, true)
	DeferCleanup(func(ctx SpecContext) { cordon(ctx, false) })
	deletePod(ctx, s)
}

func quotaAndDelete(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	c, key := objectsOf(s)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "no-pods"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: *quantity("0")}},
	}
	Expect(c.Create(ctx, quota)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(c.Delete(ctx, quota)).To(Succeed()) })
	Eventually(ctx, func(ctx context.Context) (corev1.ResourceList, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(quota), quota)
		return quota.Status.Hard, err
	}).ShouldNot(BeEmpty())
	deletePod(ctx, s)
}

func limitAndDelete(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	c, key := objectsOf(s)
	limits := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "small"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: *quantity("10m")},
		}}},
	}
	Expect(c.Create(ctx, limits)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(c.Delete(ctx, limits)).To(Succeed()) })
	deletePod(ctx, s)
}

// takeService replaces the session's Service by another owner's while the agent is paused.
func takeService(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	c, key := objectsOf(s)
	svc := &corev1.Service{}
	Expect(c.Get(ctx, key, svc)).To(Succeed())
	agent := memberNamed(where).Leading(ctx)
	Expect(agent.Pause()).To(Succeed())
	Expect(c.Delete(ctx, svc)).To(Succeed())
	theirs := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "theirs"}},
	}
	Expect(c.Create(ctx, theirs)).To(Succeed())
	Expect(agent.Resume()).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(c.Delete(ctx, theirs))).To(Succeed()) })
}

// storage adds a StorageClass without a provisioner to the member.
func storage(ctx context.Context) {
	GinkgoHelper()
	immediate := storagev1.VolumeBindingImmediate
	Expect(clientOf(memberNamed(where).ControlPlane).Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "stalled"}, Provisioner: "none.example.com/none", VolumeBindingMode: &immediate,
	})).To(Succeed())
}
