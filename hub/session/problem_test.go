package session_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

var _ = Describe("A session that can't be placed", func() {
	It("names the missing template, and is placed once it exists", func(ctx SpecContext) {
		join(ctx, "eu")
		s := create(ctx, "desktops", "early")
		Eventually(phase(ctx, s)).Should(HavePrefix(`Failed: there is no template "browser": create it`))
		template(ctx, "browser")
		running(ctx, s)
	})

	It("shows the limit that is exceeded", func(ctx SpecContext) {
		template(ctx, "browser", func(t *api.TemplateSpec) {
			t.Resources.Max = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
		})
		s := create(ctx, "desktops", "greedy", func(s *api.SessionSpec) {
			s.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")}
		})
		Eventually(phase(ctx, s)).Should(HavePrefix(`Failed: 3 of cpu is more than the 2 that template "browser" allows`))
	})

	It("shows that there are no members, and is placed when one connects", func(ctx SpecContext) {
		template(ctx, "browser")
		s := create(ctx, "desktops", "lonely")
		Eventually(reason(ctx, s, api.ConditionScheduled)).Should(Equal("False/NoMembers"))
		join(ctx, "eu")
		running(ctx, s)
	})

	It("waits for capacity, and is placed as soon as there is some", func(ctx SpecContext) {
		template(ctx, "browser")
		join(ctx, "eu", func(a *agent) { a.slots = 2 })
		var all []*api.VDISession
		for i := range 5 {
			all = append(all, create(ctx, "desktops", fmt.Sprintf("s%d", i)))
		}
		placed := func() (held, waiting []*api.VDISession) {
			for _, s := range all {
				if s = now(ctx, s); s.Status.Phase == api.PhaseRunning {
					held = append(held, s)
				} else if s.Status.Phase == api.PhasePending {
					waiting = append(waiting, s)
				}
			}
			return held, waiting
		}
		Eventually(func(g Gomega) {
			held, waiting := placed()
			g.Expect(held).To(HaveLen(2))
			g.Expect(waiting).To(HaveLen(3))
		}).Should(Succeed())
		held, waiting := placed()
		Expect(meta.FindStatusCondition(waiting[0].Status.Conditions, api.ConditionScheduled).Reason).To(Equal(api.ReasonUnschedulable))
		Expect(admin.Delete(ctx, held[0])).To(Succeed())
		Eventually(gone(ctx, held[0])).Should(BeTrue())
		all = append(all[:0:0], held[1])
		all = append(all, waiting...)
		Eventually(func() int { held, _ := placed(); return len(held) }).Should(Equal(2))
	})

	It("never exceeds a member's cap, however many are created at once", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		mc := &api.MemberCluster{}
		mc.Name = "eu"
		edit(ctx, mc, func() { limit := int32(3); mc.Spec.SessionCap = &limit })
		settled()
		for i := range 20 {
			create(ctx, "desktops", fmt.Sprintf("s%d", i))
		}
		Eventually(a.sessions).Should(HaveLen(3))
		Consistently(a.sessions).Should(HaveLen(3))
	})

	It("is removed at once when it is deleted while Pending", func(ctx SpecContext) {
		template(ctx, "browser")
		s := create(ctx, "desktops", "waiting")
		Eventually(phase(ctx, s)).Should(HavePrefix("Pending: "))
		Expect(admin.Delete(ctx, s)).To(Succeed())
		Eventually(gone(ctx, s)).Should(BeTrue())
	})
})

var _ = Describe("A refused session", func() {
	It("is placed in the next member, under the next epoch", func(ctx SpecContext) {
		template(ctx, "browser")
		no := func(*api.SessionAssignment) (string, string) {
			return api.RefusedNamespaceNotAdmitted, "desktops is not admitted"
		}
		join(ctx, "eu", func(a *agent) { a.refuse, a.slots = no, 1000 })
		join(ctx, "us", func(a *agent) { a.slots = 10 })
		s, a := running(ctx, create(ctx, "desktops", "unwanted"))
		Expect(a.name).To(Equal("us"))
		Expect(s.Status.Epoch).To(Equal(int64(2)))
		Expect(s.Status.Releasing).To(BeEmpty())
	})

	It("shows why when no member is left", func(ctx SpecContext) {
		template(ctx, "browser")
		join(ctx, "eu", func(a *agent) {
			a.refuse = func(*api.SessionAssignment) (string, string) {
				return api.RefusedNamespaceNotAdmitted, "desktops is not admitted"
			}
		})
		s := create(ctx, "desktops", "unwanted")
		Eventually(phase(ctx, s)).Should(And(HavePrefix("Pending: "), ContainSubstring("NamespaceNotAdmitted")))
		Consistently(func() int64 { return now(ctx, s).Status.Epoch }).Should(Equal(int64(1)))
	})
})

var _ = Describe("A deleted session", func() {
	It("stays until its member has stopped it", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "ending"))
		a.set(func() { a.holdStops = true })
		Expect(admin.Delete(ctx, s)).To(Succeed())
		Eventually(phase(ctx, s)).Should(Equal("Terminating: being deleted: waiting until eu has confirmed that nothing of it runs"))
		Consistently(gone(ctx, s)).Should(BeFalse())
		a.finishStops()
		Eventually(gone(ctx, s)).Should(BeTrue())
		Expect(a.sessions()).To(BeEmpty())
	})

	It("is stopped when its member reconnects, and keeps its finalizer until then", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "ending"))
		a.disconnect()
		Expect(admin.Delete(ctx, s)).To(Succeed())
		Consistently(gone(ctx, s)).Should(BeFalse())
		a.restart()
		a.connect(theHub)
		Eventually(gone(ctx, s)).Should(BeTrue())
		Expect(a.sessions()).To(BeEmpty())
	})

	It("ends when the member has lost it meanwhile", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "ending"))
		a.disconnect()
		a.set(func() { a.end(s.UID) })
		Expect(admin.Delete(ctx, s)).To(Succeed())
		a.connect(theHub)
		Eventually(gone(ctx, s)).Should(BeTrue())
	})
})

var _ = Describe("A member", func() {
	It("that loses an assignment gets the session again, under a higher epoch", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "lost"))
		a.deleteByHand(s.UID)
		Eventually(func() int64 { return now(ctx, s).Status.Epoch }).Should(Equal(int64(2)))
		running(ctx, s)
		Expect(a.holds(s.UID).Spec.Epoch).To(Equal(int64(2)))
	})

	It("that was away gets the orders for what was placed there", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "kept"))
		a.disconnect()
		edit(ctx, s, func() { s.Spec.Timeout = "9h" })
		settled()
		a.connect(theHub)
		Eventually(func() api.Duration { return a.holds(s.UID).Spec.Timeout }).Should(Equal(api.Duration("9h")))
	})

	It("without a heartbeat has its sessions shown as last reported, and gets no more", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "shown"))
		a.set(func() { a.quiet = true })
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("Unknown/FailoverPending"))
		Expect(now(ctx, s).Status.Phase).To(Equal(api.PhaseRunning))
		waiting := create(ctx, "desktops", "waiting")
		Eventually(reason(ctx, waiting, api.ConditionScheduled)).Should(Equal("False/Unschedulable"))
		settled() // no two writers overwrite each other's condition
		a.set(func() { a.quiet = false })
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("True/Ready"))
		running(ctx, waiting)
		Expect(a.sessions()).To(HaveLen(2))
	})

	It("that is cut off and reconnects keeps its sessions under their epochs", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		join(ctx, "us")
		s, _ := running(ctx, create(ctx, "desktops", "kept", onlyIn("eu")))
		a.disconnect()
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("Unknown/FailoverPending"))
		a.restart()
		a.connect(theHub)
		Eventually(reason(ctx, s, api.ConditionReady)).Should(Equal("True/Ready"))
		Expect(now(ctx, s).Status.Epoch).To(Equal(int64(1)))
	})

	It("stays while it is in use, gets no new sessions, and is removed when it is empty", func(ctx SpecContext) {
		template(ctx, "browser")
		join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "holding"))
		mc := &api.MemberCluster{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: "eu"}, mc)).To(Succeed())
		Expect(admin.Delete(ctx, mc)).To(Succeed())
		Eventually(eventCount(ctx, mc, "InUse")).Should(BeNumerically(">", 0), "the hub has seen the deletion")
		waiting := create(ctx, "desktops", "waiting")
		Eventually(phase(ctx, waiting)).Should(And(HavePrefix("Pending: "), ContainSubstring("being removed")))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(mc), mc)).To(Succeed())
		Expect(mc.Finalizers).To(ContainElement(api.MemberFinalizer))
		Expect(admin.Delete(ctx, s)).To(Succeed())
		Eventually(gone(ctx, s)).Should(BeTrue())
		Eventually(func() error {
			return admin.Get(ctx, client.ObjectKeyFromObject(mc), mc)
		}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		Eventually(reason(ctx, waiting, api.ConditionScheduled)).Should(Equal("False/NoMembers"))
	})

	It("keeps assignments that the hub has no record of", func(ctx SpecContext) {
		template(ctx, "browser")
		orphan := &api.SessionAssignment{}
		orphan.Namespace, orphan.Name = "desktops", "unknown-0123456789"
		orphan.Spec.Session = api.SessionReference{Namespace: "desktops", Name: "unknown", UID: types.UID("not-on-this-hub")}
		orphan.Spec.Epoch = 7
		a := join(ctx, "eu", func(a *agent) { a.storeUnordered(orphan) })
		running(ctx, create(ctx, "desktops", "other"))
		Consistently(func() *api.SessionAssignment { return a.holds("not-on-this-hub") }).ShouldNot(BeNil())
		Expect(a.ordersSeen()).To(Equal(1))
	})
})

var _ = Describe("A hub", func() {
	It("that is replaced in the middle assigns no epoch twice and places no session twice", func(ctx SpecContext) {
		template(ctx, "browser")
		join(ctx, "eu", func(a *agent) { a.slots = 25 })
		join(ctx, "us", func(a *agent) { a.slots = 25 })
		var all []*api.VDISession
		for i := range 50 {
			all = append(all, create(ctx, "desktops", fmt.Sprintf("s%d", i)))
			if i%15 == 14 {
				replaceHub()
			}
		}
		replaceHub()
		for _, s := range all {
			running(ctx, s)
		}
		Expect(agents["eu"].sessions()).To(HaveLen(25))
		Expect(agents["us"].sessions()).To(HaveLen(25))
	}, NodeTimeout(2*time.Minute))

	It("counts what was placed before it led and is still on its way", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu", func(a *agent) { a.slots, a.mute = 1, true })
		first := create(ctx, "desktops", "first")
		Eventually(reason(ctx, first, api.ConditionAssigned)).Should(Equal("False/Sending"))
		Eventually(a.ordersSeen).Should(Equal(1))
		replaceHub()
		second := create(ctx, "desktops", "second")
		Eventually(reason(ctx, second, api.ConditionScheduled)).Should(Equal("False/Unschedulable"))
		Consistently(reason(ctx, second, api.ConditionScheduled)).Should(Equal("False/Unschedulable"))
		a.set(func() { a.mute = false })
		replaceHub()
		running(ctx, first)
		Expect(now(ctx, first).Status.Epoch).To(Equal(int64(1)))
	})

	It("counts what was placed before it led", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu", func(a *agent) { a.slots = 2 })
		running(ctx, create(ctx, "desktops", "one"))
		running(ctx, create(ctx, "desktops", "two"))
		replaceHub()
		s := create(ctx, "desktops", "three")
		Eventually(reason(ctx, s, api.ConditionScheduled)).Should(Equal("False/Unschedulable"))
		a.set(func() { a.slots = 3 })
		a.send(func(m link.Member) { m.Capacity(a.report()) })
		running(ctx, s)
	})

	It("that was restored from an older state adopts the epochs that were assigned", func(ctx SpecContext) {
		template(ctx, "browser")
		a := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "future"))
		a.disconnect()
		a.set(func() {
			held := a.held[s.UID]
			held.Spec.Epoch, held.Spec.Proof, a.floor[s.UID] = 41, proofOf(ctx, a.uid, s.UID, 41), 41
		})
		a.connect(theHub)
		Eventually(func() int64 { return now(ctx, s).Status.Epoch }).Should(Equal(int64(41)))
		s, _ = running(ctx, s)
		Expect(s.Status.Placement.Epoch).To(Equal(int64(41)))
		Expect(a.holds(s.UID).Spec.Epoch).To(Equal(int64(41)), "its desktop goes on as it is")
	})

	It("adopts no epoch that is reported without a proof", func(ctx SpecContext) {
		template(ctx, "browser")
		a, impostor := join(ctx, "eu"), join(ctx, "us")
		s, _ := running(ctx, create(ctx, "desktops", "mine", onlyIn("eu")))
		at := mark()
		for _, epoch := range []int64{1, 2, 1 << 40} {
			forged := reportOf(a.holds(s.UID))
			forged.Spec.Epoch = epoch
			before := counted("vdi_hub_unproven_reports_total")
			impostor.send(func(m link.Member) { m.Changes(asReports(forged)) })
			Eventually(func() float64 { return counted("vdi_hub_unproven_reports_total") }).Should(BeNumerically(">", before))
		}
		Consistently(func(g Gomega) {
			g.Expect(now(ctx, s).Status.Epoch).To(Equal(int64(1)))
			g.Expect(impostor.ordersSeen()).To(BeZero(), "an order would disclose that there is a session")
			g.Expect(sessionWrites(at)).To(BeEmpty())
		}).Should(Succeed())
		Expect(a.holds(s.UID).Spec.Epoch).To(Equal(int64(1)))
	})
})

// proofOf returns the proof of a placement, computed with the hub's key.
func proofOf(ctx context.Context, member, session types.UID, epoch int64) string {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(admin.Get(ctx, client.ObjectKey{Namespace: systemNamespace, Name: api.PlacementKeySecret}, secret)).To(Succeed())
	mac := hmac.New(sha256.New, secret.Data[api.PlacementKey])
	mac.Write(fmt.Appendf(nil, "vdi.kasm.io/placement\x00%s\x00%s\x00%d", member, session, epoch))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// counted returns the value of a counter of the hub, summed over its labels.
func counted(name string) float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	for _, f := range families {
		if f.GetName() == name {
			sum := 0.0
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
			return sum
		}
	}
	Fail("the hub has no metric " + name)
	return 0
}
