package session_test

import (
	"cmp"
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// eventCount returns the number of events of a reason about an object.
func eventCount(ctx context.Context, o client.Object, reason string) func() int {
	return func() int {
		list := &eventsv1.EventList{}
		if admin.List(ctx, list, client.InNamespace(cmp.Or(o.GetNamespace(), metav1.NamespaceDefault))) != nil {
			return -1
		}
		n := 0
		for i := range list.Items {
			if e := &list.Items[i]; e.Reason == reason && e.Regarding.UID == o.GetUID() {
				n++
			}
		}
		return n
	}
}

func suspend(ctx context.Context, s *api.VDISession) {
	GinkgoHelper()
	edit(ctx, s, func() { s.Spec.OperatingMode = api.ModeSuspended })
}

func resume(ctx context.Context, s *api.VDISession) {
	GinkgoHelper()
	edit(ctx, s, func() { s.Spec.OperatingMode = api.ModeRunning })
}

func runState(a *agent, s *api.VDISession) func() api.OperatingMode {
	return func() api.OperatingMode {
		if held := a.holds(s.UID); held != nil {
			return held.Spec.RunState
		}
		return ""
	}
}

// perSessionHome pins a session to its member.
func perSessionHome(t *api.TemplateSpec) {
	size := resource.MustParse("1Gi")
	t.Home.Mode, t.Home.Size = api.HomePerSession, &size
}

var _ = Describe("A suspended session", func() {
	It("frees its slot for another, and waits for capacity when it is resumed", func(ctx SpecContext) {
		template(ctx, "browser", perSessionHome)
		a := join(ctx, "eu", func(a *agent) { a.slots = 1 })
		first, _ := running(ctx, create(ctx, "desktops", "first"))
		second := create(ctx, "desktops", "second")
		Eventually(reason(ctx, second, api.ConditionScheduled)).Should(Equal("False/Unschedulable"))
		suspend(ctx, first)
		second, _ = running(ctx, second)
		Expect(now(ctx, first).Status.URL).NotTo(BeEmpty())

		resume(ctx, first)
		Eventually(phase(ctx, first)).Should(And(HavePrefix("Pending: no capacity to resume it: eu lacks"), HaveSuffix("its home is there")))
		Expect(runState(a, first)()).To(Equal(api.ModeSuspended))
		Consistently(reason(ctx, first, api.ConditionScheduled)).Should(Equal("False/NoCapacityToResume"))
		Expect(admin.Delete(ctx, second)).To(Succeed())
		first, _ = running(ctx, first)
		Expect(first.Status.Epoch).To(Equal(int64(1)))
		Expect(first.Status.Placement.Run).To(Equal(int64(2)))
		Eventually(eventCount(ctx, first, api.EventResumed)).Should(Equal(1))
		Expect(eventCount(ctx, first, api.EventSuspended)()).To(Equal(1))
	})

	It("is resumed elsewhere when it has no home and its member has no capacity", func(ctx SpecContext) {
		template(ctx, "browser")
		eu := join(ctx, "eu", func(a *agent) { a.slots = 1 })
		s, _ := running(ctx, create(ctx, "desktops", "moving"))
		suspend(ctx, s)
		Eventually(runState(eu, s)).Should(Equal(api.ModeSuspended))
		running(ctx, create(ctx, "desktops", "other"))
		us := join(ctx, "us", func(a *agent) { a.slots = 1 })
		eu.set(func() { eu.holdStops = true })
		resume(ctx, s)
		Eventually(reason(ctx, s, api.ConditionScheduled)).Should(Equal("False/Releasing"))
		// Its capacity is reserved.
		late := create(ctx, "desktops", "late")
		Eventually(reason(ctx, late, api.ConditionScheduled)).Should(Equal("False/Unschedulable"))
		Consistently(us.sessions).Should(BeEmpty())
		eu.finishStops()
		s, a := running(ctx, s)
		Expect(a).To(BeIdenticalTo(us))
		Expect(s.Status.Epoch).To(Equal(int64(2)))
		Expect(s.Status.Releasing).To(BeEmpty())
		Expect(eu.holds(s.UID)).To(BeNil())
	})

	It("follows its spec, however quickly that changes", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu", func(a *agent) { a.slots = 1 })
		s, _ := running(ctx, create(ctx, "desktops", "toggled"))
		for range 8 {
			suspend(ctx, s)
			resume(ctx, s)
		}
		suspend(ctx, s)
		Eventually(runState(a, s)).Should(Equal(api.ModeSuspended))
		Consistently(phase(ctx, s)).Should(HavePrefix("Pending: suspended"))
		other, _ := running(ctx, create(ctx, "desktops", "other"))
		Expect(admin.Delete(ctx, other)).To(Succeed())
		Eventually(gone(ctx, other)).Should(BeTrue())
		for range 8 {
			resume(ctx, s)
			suspend(ctx, s)
		}
		resume(ctx, s)
		s, _ = running(ctx, s)
		Expect(runState(a, s)()).To(Equal(api.ModeRunning))
		Expect(s.Status.Epoch).To(Equal(int64(1)))
		// No reservation is left.
		a.set(func() { a.slots = 2 })
		a.send(func(m linkMember) { m.Capacity(a.report()) })
		running(ctx, create(ctx, "desktops", "next"))
	})

	It("is resumed when its member is back, if that is away", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		join(ctx, "us")
		s, _ := running(ctx, create(ctx, "desktops", "away", onlyIn("eu")))
		suspend(ctx, s)
		Eventually(runState(a, s)).Should(Equal(api.ModeSuspended))
		a.disconnect()
		Eventually(phase(ctx, s)).Should(HavePrefix("Pending: suspended"))
		resume(ctx, s)
		Eventually(phase(ctx, s)).Should(HavePrefix("Pending: no capacity to resume it: eu is not ready"))
		a.connect(theHub)
		s, _ = running(ctx, s)
		Expect(s.Status.Epoch).To(Equal(int64(1)))
	})

	It("takes no capacity under the next leader either, and is resumed under it", func(ctx SpecContext) {
		template(ctx, "browser", perSessionHome)
		a := join(ctx, "eu", func(a *agent) { a.slots = 1 })
		s, _ := running(ctx, create(ctx, "desktops", "first"))
		suspend(ctx, s)
		Eventually(runState(a, s)).Should(Equal(api.ModeSuspended))
		replaceHub()
		other, _ := running(ctx, create(ctx, "desktops", "other"))
		Expect(admin.Delete(ctx, other)).To(Succeed())
		Eventually(gone(ctx, other)).Should(BeTrue())
		// Its resume is decided and does not reach the member.
		a.set(func() { a.mute = true })
		resume(ctx, s)
		Eventually(func() bool { return now(ctx, s).Status.Placement.Idle }).Should(BeFalse())
		replaceHub()
		late := create(ctx, "desktops", "late")
		Eventually(reason(ctx, late, api.ConditionScheduled)).Should(Equal("False/Unschedulable"))
		a.set(func() { a.mute = false })
		replaceHub()
		running(ctx, s)
		Expect(a.sessions()).To(HaveLen(1))
	})

	It("costs one write for each decision, and what its member reports", func(ctx SpecContext) {
		template(ctx, "browser")
		join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "counted"))
		settled()
		before := mark()
		suspend(ctx, s)
		settled()
		// One write for the decision, and one or two for the two reports of the member:
		// that it has stored the order, and that the desktop is stopped.
		Expect(harness.Total(sessionWrites(before))).To(BeNumerically("<=", 3), "%+v", sessionWrites(before))
		before = mark()
		resume(ctx, s)
		running(ctx, s)
		settled()
		// Each run has an access secret of its own.
		Expect(harness.Total(sessionWrites(before))).To(BeNumerically("<=", 3), "%+v", sessionWrites(before))
	})
})

var _ = Describe("A session that failed permanently", func() {
	It("shows the remedy, frees its slot, and is retried with the corrected template", func(ctx SpecContext) {
		t := template(ctx, "browser")
		a := join(ctx, "eu", func(a *agent) { a.slots, a.holdStarts = 1, true })
		s := create(ctx, "desktops", "broken")
		Eventually(reason(ctx, s, api.ConditionAssigned)).Should(Equal("True/Stored"))
		a.fail(s.UID, api.ReasonImagePull, "There is no such image: correct spec.image of the template.")
		Eventually(phase(ctx, s)).Should(Equal("Failed: There is no such image: correct spec.image of the template; to retry, raise spec.attempt to 1"))
		Eventually(runState(a, s)).Should(Equal(api.ModeSuspended))
		Eventually(eventCount(ctx, s, api.EventFailed)).Should(Equal(1))
		a.set(func() { a.holdStarts = false })
		edit(ctx, t, func() { t.Spec.Image = "registry.example.com/browser:2" })
		Consistently(phase(ctx, s)).Should(HavePrefix("Failed: "))
		other, _ := running(ctx, create(ctx, "desktops", "other"))

		edit(ctx, s, func() { s.Spec.Attempt = 1 })
		Eventually(phase(ctx, s)).Should(HavePrefix("Pending: no capacity to resume it"))
		Expect(admin.Delete(ctx, other)).To(Succeed())
		s, _ = running(ctx, s)
		held := a.holds(s.UID)
		Expect(held.Spec.Attempt).To(Equal(int64(1)))
		Expect(held.Spec.Desktop.Image).To(Equal("registry.example.com/browser:2"))
		Expect(s.Status.Attempt).To(Equal(int64(1)))
		Expect(eventCount(ctx, s, api.EventRetried)()).To(Equal(1))
	})

	It("is not retried by being resumed", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "idle"))
		a.fail(s.UID, api.ReasonIdleExpired, "Nobody has used it for 1h: raise spec.attempt to start it again.")
		Eventually(phase(ctx, s)).Should(Equal("Failed: Nobody has used it for 1h: raise spec.attempt to start it again."))
		suspend(ctx, s)
		Eventually(phase(ctx, s)).Should(HavePrefix("Pending: "))
		resume(ctx, s)
		Eventually(phase(ctx, s)).Should(HavePrefix("Failed: "))
		Consistently(runState(a, s)).Should(Equal(api.ModeSuspended))
		edit(ctx, s, func() { s.Spec.Attempt = 7 })
		running(ctx, s)
	})
})

var _ = Describe("A session's user", func() {
	It("gets an event before its time is over, and another when it is", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "short", func(s *api.SessionSpec) { s.Timeout = "10s" }))
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("True/ExpiringSoon"))
		Eventually(eventCount(ctx, s, api.EventExpiringSoon)).Should(Equal(1))
		a.expire(s)
		Eventually(phase(ctx, s)).Should(HavePrefix("Failed: its time of 10s is over"))
		Eventually(runState(a, s)).Should(Equal(api.ModeSuspended))
		Eventually(eventCount(ctx, s, api.EventExpired)).Should(Equal(1))
		Expect(now(ctx, s).Status.ExpirationTime).NotTo(BeNil())
	}, NodeTimeout(testTimeout))

	It("gets an event that the desktop seems to be idle", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "unused"))
		unused := conditions(api.ModeRunning)
		unused[1].Reason, unused[1].Message = api.ReasonIdleSoon, "Nobody has used it for long."
		a.become(s.UID, unused)
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("True/ExpiringSoon"))
		Eventually(eventCount(ctx, s, api.EventExpiringSoon)).Should(Equal(1))
		a.become(s.UID, conditions(api.ModeRunning))
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("True/Ready"))
	})

	It("gets its Secrets again where the member has lost them", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "robbed"))
		var sent int
		a.set(func() { a.last[s.UID], sent = "", a.orders })
		a.updateStatus(s.UID, func(status *api.SessionAssignmentStatus) {
			status.MissingSecrets = []string{"access"}
			status.Conditions = []metav1.Condition{{Type: api.ConditionPodReady, Status: metav1.ConditionFalse, Reason: api.ReasonSecretMissing, Message: "access is missing"}}
		})
		// The agent's next report names no missing secret.
		Eventually(a.ordersSeen).Should(Equal(sent + 1))
		running(ctx, s)
	})
})
