package session_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

// testTimeout bounds specs that wait for a session's time.
const testTimeout = 2 * time.Minute

type linkMember = link.Member

var _ = Describe("A forced deletion by an operator", func() {
	It("removes a deleted session without its member's confirmation, after a while", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "stuck"))
		a.set(func() { a.holdStops = true })
		Expect(admin.Delete(ctx, s)).To(Succeed())
		Eventually(phase(ctx, s)).Should(HavePrefix("Terminating: being deleted"))
		requested := time.Now()
		edit(ctx, s, func() { s.Annotations = map[string]string{api.AnnotationForceCleanup: "node n1 burnt"} })
		Eventually(func() (forced bool) { a.set(func() { forced = a.forced[s.UID] }); return forced }).Should(BeTrue())
		Eventually(gone(ctx, s)).Should(BeTrue())
		Expect(time.Since(requested)).To(BeNumerically(">=", forceAfter))
		Eventually(eventCount(ctx, s, api.EventForced)).Should(Equal(1))
		// The hub does not touch what it has no record of any more.
		Consistently(func() *api.SessionAssignment { return a.holds(s.UID) }).ShouldNot(BeNil())
	})

	It("does not cut short a member that confirms", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "quick"))
		edit(ctx, s, func() { s.Annotations = map[string]string{api.AnnotationForceCleanup: "in advance"} })
		running(ctx, s) // it means nothing before the session is deleted
		Expect(admin.Delete(ctx, s)).To(Succeed())
		Eventually(gone(ctx, s)).Should(BeTrue())
		Expect(a.sessions()).To(BeEmpty())
		Consistently(eventCount(ctx, s, api.EventForced)).Should(BeZero())
	})

	It("is carried out at once where the member can't be reached", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "away"))
		a.disconnect()
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("Unknown/FailoverPending"))
		Expect(admin.Delete(ctx, s)).To(Succeed())
		Eventually(phase(ctx, s)).Should(And(HavePrefix("Terminating: being deleted: eu is unreachable"), ContainSubstring(api.AnnotationForceCleanup)))
		edit(ctx, s, func() { s.Annotations = map[string]string{api.AnnotationForceCleanup: "eu is gone"} })
		Eventually(gone(ctx, s), forceAfter/2).Should(BeTrue())
		Eventually(eventCount(ctx, s, api.EventForced)).Should(Equal(1))
	})
})

var _ = Describe("A session that takes long to end", func() {
	It("shows what its member waits for", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "slow"))
		a.set(func() { a.holdStops = true })
		Expect(admin.Delete(ctx, s)).To(Succeed())
		Eventually(func() api.AssignmentState { return a.holds(s.UID).Status.State }).Should(Equal(api.AssignmentStopping))
		a.updateStatus(s.UID, func(status *api.SessionAssignmentStatus) { status.Message = "The Pod is being stopped by node n1." })
		Eventually(phase(ctx, s)).Should(Equal("Terminating: being deleted: eu: The Pod is being stopped by node n1."))
		settled()
		a.finishStops()
		Eventually(gone(ctx, s)).Should(BeTrue())
	}, NodeTimeout(testTimeout))
})
