package session_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

// perSessionChildren are the children of a session with a home of its own and
// no config: claim, Pod, Service, Ingress.
const perSessionChildren = 4

// expectCheap expects one write for each child of a session that took some time to start, one or
// two of its status, and one more for each statusInterval of a slow start.
func expectCheap(g Gomega, name string, took time.Duration) {
	lines, creates := tally.of(name), 0
	for _, line := range lines {
		if strings.HasPrefix(line, "POST ") {
			creates++
		}
	}
	g.Expect(creates).To(Equal(perSessionChildren), "%v", lines)
	g.Expect(len(lines)-creates).To(BeNumerically("<=", 2+int(took/statusInterval)), "%v", lines)
}

var _ = Describe("A session's life", specs.Smoke, func() {
	for _, mode := range []api.HomeMode{api.HomeNone, api.HomePerSession, api.HomePerUser} {
		It("runs and shows its endpoint, with a home "+string(mode), func(ctx SpecContext) {
			a := running(ctx, home(mode))
			Expect(a.Status.State).To(Equal(api.AssignmentActive))
			Expect(a.Status.Message).To(BeEmpty())
			Expect(a.Status.StartTime).NotTo(BeNil())
			Expect(a.Status.ObservedGeneration).To(Equal(a.Generation))
			Expect(a.Status.NodeName).To(Equal(get(ctx, podOf(a)).Spec.NodeName))
		}, SpecTimeout(3*time.Minute))
	}

	It("has an event for running again, and none for a start that went well", func(ctx SpecContext) {
		a := running(ctx, home(api.HomeNone))
		Consistently(ctx, events(ctx, a)).WithTimeout(time.Second).ShouldNot(ContainElement(api.EventRunning))
		Expect(admin.Delete(ctx, podOf(a))).To(Succeed())
		Eventually(ctx, events(ctx, a)).Should(ContainElement(api.EventRunning))
	}, SpecTimeout(3*time.Minute))

	It("costs one write a child and few of its status", func(ctx SpecContext) {
		start := time.Now()
		a := running(ctx, home(api.HomePerSession))
		took := time.Since(start)
		Consistently(func(g Gomega) { expectCheap(g, a.Name, took) }).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("writes nothing while nothing is wrong, whatever happens around it", func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerUser))
		before := len(tally.of(a.Name))
		edit(ctx, podOf(a), func(p *corev1.Pod) { p.Annotations["someone/else"] = "1" })
		edit(ctx, serviceOf(a), func(s *corev1.Service) { s.Labels["someone"] = "else" })
		edit(ctx, a.DeepCopy(), func(a *api.SessionAssignment) { a.Labels["team"] = "x" })
		Consistently(func() []string { return tally.of(a.Name)[before:] }).Should(BeEmpty())
	}, SpecTimeout(3*time.Minute))

	It("writes nothing when its agent starts again", Serial, func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerSession))
		before := len(tally.of(a.Name))
		stopAgent()
		startAgent()
		Consistently(func() []string { return tally.of(a.Name)[before:] }).Should(BeEmpty())
		By("still being there")
		Expect(admin.Delete(ctx, podOf(a))).To(Succeed())
		Eventually(func() []string { return tally.of(a.Name)[before:] }).ShouldNot(BeEmpty())
		expectReady(ctx, a)
	}, SpecTimeout(3*time.Minute))

	It("suspends and resumes, and keeps home and address meanwhile", func(ctx SpecContext) {
		a := running(ctx, home(api.HomePerSession))
		claim, service := get(ctx, claimOf(a)).UID, get(ctx, serviceOf(a)).UID
		start := a.Status.StartTime.DeepCopy()

		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.RunState = api.ModeSuspended })
		expectGone(ctx, podOf(a))
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonSuspended, "Running to go on")
		Expect(a.Status.NodeName).To(BeEmpty())
		Expect(get(ctx, claimOf(a)).UID).To(Equal(claim))
		Expect(get(ctx, serviceOf(a)).UID).To(Equal(service))
		get(ctx, ingressOf(a))

		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.RunState = api.ModeRunning })
		expectReady(ctx, a)
		Expect(a.Status.StartTime.Equal(start)).To(BeTrue(), "the session has begun but once")
	}, SpecTimeout(3*time.Minute))

	It("keeps a running desktop when its template changes under the same epoch", func(ctx SpecContext) {
		a := running(ctx)
		uid := get(ctx, podOf(a)).UID
		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.Desktop.Image = "registry.example.com/browser:2" })
		Consistently(ctx, func(g Gomega) {
			pod := get(ctx, podOf(a))
			g.Expect(pod.UID).To(Equal(uid))
			g.Expect(pod.DeletionTimestamp).To(BeNil())
			g.Expect(pod.Spec.Containers[0].Image).To(Equal("registry.example.com/browser:1"))
		}).Should(Succeed())

		By("rescheduling it")
		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.Epoch = 2 })
		Eventually(ctx, func(g Gomega) {
			pod := podOf(a)
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
			g.Expect(pod.Spec.Containers[0].Image).To(Equal("registry.example.com/browser:2"))
			g.Expect(pod.Annotations).To(HaveKeyWithValue(api.AnnotationEpoch, "2"))
		}).Should(Succeed())
		expectReady(ctx, a)
	}, SpecTimeout(3*time.Minute))

	It("keeps a running desktop that is rescheduled as it is", func(ctx SpecContext) {
		a := running(ctx)
		uid := get(ctx, podOf(a)).UID
		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.Epoch = 7 })
		Eventually(ctx, func() map[string]string { return get(ctx, podOf(a)).Annotations }).
			Should(HaveKeyWithValue(api.AnnotationEpoch, "7"))
		Expect(get(ctx, podOf(a)).UID).To(Equal(uid))
	}, SpecTimeout(3*time.Minute))
})

// events are the reasons of the assignment's events.
func events(ctx context.Context, a *api.SessionAssignment) func(Gomega) []string {
	return func(g Gomega) []string {
		var list eventsv1.EventList
		g.Expect(admin.List(ctx, &list, client.InNamespace(a.Namespace))).To(Succeed())
		var reasons []string
		for _, e := range list.Items {
			if e.Regarding.UID == a.UID {
				reasons = append(reasons, e.Reason)
			}
		}
		return reasons
	}
}
