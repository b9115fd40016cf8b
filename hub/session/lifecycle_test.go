package session_test

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

var _ = Describe("A session", specs.Smoke, func() {
	It("is placed, assigned and shown as its member reports it, in at most four writes", func(ctx SpecContext) {
		template(ctx, "browser", func(t *api.TemplateSpec) { t.Path = "/vnc.html" })
		a := join(ctx, "eu")
		// An earlier session stores the template's revision.
		running(ctx, create(ctx, "desktops", "first"))
		settled()
		before := mark()
		s, _ := running(ctx, create(ctx, "desktops", "second"))
		Expect(s.Status.Placement.ClusterName).To(Equal("eu"))
		Expect(s.Status.Placement.Epoch).To(Equal(int64(1)))
		Expect(s.Status.StartTime).NotTo(BeNil())
		held := a.holds(s.UID)
		Expect(held.Spec.Epoch).To(Equal(int64(1)))
		Expect(s.Status.URL).To(Equal("https://" + held.Spec.Host + "/vnc.html"))
		Expect(held.Spec.Host).To(Equal(api.AssignmentName("second", s.UID) + ".eu.example.com"))
		settled()
		expectFewWrites(before)
	})

	It("gets another assignment than its predecessor of the same name", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		first, _ := running(ctx, create(ctx, "desktops", "mine"))
		old := a.holds(first.UID).Name
		Expect(admin.Delete(ctx, first)).To(Succeed())
		Eventually(gone(ctx, first)).Should(BeTrue())
		second, _ := running(ctx, create(ctx, "desktops", "mine"))
		Expect(a.holds(second.UID).Name).NotTo(Equal(old))
		Expect(a.sessions()).To(HaveLen(1))
	})

	It("shares its name with one of another namespace, and nothing else", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		one, _ := running(ctx, create(ctx, "desktops", "same"))
		two, _ := running(ctx, create(ctx, "elsewhere", "same"))
		Expect(a.holds(one.UID).Name).NotTo(Equal(a.holds(two.UID).Name))
		Expect(admin.Delete(ctx, one)).To(Succeed())
		Eventually(gone(ctx, one)).Should(BeTrue())
		Expect(a.holds(two.UID)).NotTo(BeNil())
		Expect(now(ctx, two).Status.Phase).To(Equal(api.PhaseRunning))
	})

	It("runs again by itself once its time is extended", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "short", func(s *api.SessionSpec) { s.Timeout = "2500ms" }))
		Expect(s.Status.ExpirationTime).NotTo(BeNil())
		a.expire(s)
		Eventually(phase(ctx, s)).Should(HavePrefix("Failed: its time of 2500ms is over: raise spec.timeout"))
		Eventually(func() api.OperatingMode { return a.holds(s.UID).Spec.RunState }).Should(Equal(api.ModeSuspended))
		edit(ctx, s, func() { s.Spec.Timeout = "8h" })
		running(ctx, s)
		Expect(a.holds(s.UID).Spec.RunState).To(Equal(api.ModeRunning))
	})

	It("is suspended and resumed where it is", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "paused"))
		edit(ctx, s, func() { s.Spec.OperatingMode = api.ModeSuspended })
		Eventually(phase(ctx, s)).Should(HavePrefix("Pending: suspended"))
		Eventually(func() api.OperatingMode { return a.holds(s.UID).Spec.RunState }).Should(Equal(api.ModeSuspended))
		edit(ctx, s, func() { s.Spec.OperatingMode = api.ModeRunning })
		s, _ = running(ctx, s)
		Expect(s.Status.Epoch).To(Equal(int64(1)))
		Expect(s.Status.Placement.Run).To(Equal(int64(2)))
	})

	It("keeps its template's revision when it is edited, and its assignment as it was", func(ctx SpecContext) {
		t := template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "old"))
		orders := a.ordersSeen()
		edit(ctx, t, func() { t.Spec.Image = "registry.example.com/browser:2" })
		// The hub's watches of templates and of sessions are not ordered.
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
			g.Expect(t.Status.ObservedGeneration).To(Equal(t.Generation))
		}).Should(Succeed())
		fresh, _ := running(ctx, create(ctx, "desktops", "new"))
		Expect(a.holds(fresh.UID).Spec.Desktop.Image).To(Equal("registry.example.com/browser:2"))
		Expect(a.holds(s.UID).Spec.Desktop.Image).To(Equal("registry.example.com/browser:1"))
		Expect(a.ordersSeen()).To(Equal(orders + 1))
		// After its deletion by hand in the member it is rescheduled with its template revision.
		a.deleteByHand(s.UID)
		Eventually(func() int64 { return now(ctx, s).Status.Epoch }).Should(Equal(int64(2)))
		s, _ = running(ctx, s)
		Expect(a.holds(s.UID).Spec.Desktop.Image).To(Equal("registry.example.com/browser:1"))
	})
})

var _ = Describe("A session whose Pod takes a while", func() {
	It("takes four writes at most", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu", func(a *agent) { a.holdStarts = true })
		settled()
		before := mark()
		s := create(ctx, "desktops", "slow")
		Eventually(reason(ctx, s, api.ConditionAssigned)).Should(Equal("True/Stored"))
		a.become(s.UID, conditions(api.ModeSuspended)[:1])
		// A partial report costs no write: it is held back.
		Consistently(reason(ctx, s, api.ConditionHomeReady), "500ms").Should(BeEmpty())
		a.become(s.UID, conditions(api.ModeRunning))
		running(ctx, s)
		expectFewWrites(before)
	})
})

var _ = Describe("A quiet fleet", func() {
	It("writes nothing when everything is reconciled again", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		join(ctx, "us")
		var all []*api.VDISession
		for i := range 10 {
			all = append(all, create(ctx, "desktops", fmt.Sprintf("s%d", i), func(s *api.SessionSpec) { s.Timeout = "90h1500ms" }))
		}
		for _, s := range all {
			running(ctx, s)
		}
		waiting := create(ctx, "desktops", "waiting", onlyIn("nowhere"))
		policyless := create(ctx, "desktops", "policyless", func(s *api.SessionSpec) { s.Placement.Policy = "none" })
		Eventually(phase(ctx, waiting)).Should(HavePrefix("Pending: "))
		Eventually(phase(ctx, policyless)).Should(HavePrefix("Failed: there is no placement policy"))
		settled()
		before := mark()
		// A reconnect compares everything again; a capacity report requeues all pending sessions.
		a.disconnect()
		a.connect(theHub)
		a.send(func(m link.Member) { m.Capacity(a.report()) })
		Consistently(func() []harness.WriteCount { return writesSince(before) }, "3s").Should(BeEmpty())
	})
})
