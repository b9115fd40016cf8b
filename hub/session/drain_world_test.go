package session_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

var _ = Describe("A member that is drained", func() {
	drain := func(ctx context.Context, name string, limits api.DrainLimits) {
		GinkgoHelper()
		mc := &api.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		edit(ctx, mc, func() { mc.Spec.Scheduling, mc.Spec.Drain = api.SchedulingDraining, limits })
	}
	drained := func(ctx context.Context, name string) func(Gomega) string {
		return func(g Gomega) string {
			mc := &api.MemberCluster{}
			g.Expect(admin.Get(ctx, client.ObjectKey{Name: name}, mc)).To(Succeed())
			if c := meta.FindStatusCondition(mc.Status.Conditions, api.ConditionDrained); c != nil {
				return string(c.Status) + "/" + c.Reason + ": " + c.Message
			}
			return ""
		}
	}
	// several returns sessions that run in a member, and are idle or not.
	several := func(ctx context.Context, n int, in *agent, idle bool) []*api.VDISession {
		GinkgoHelper()
		var out []*api.VDISession
		for i := range n {
			s, at := running(ctx, create(ctx, "desktops", fmt.Sprintf("%s-%d-%t", in.name, i, idle)))
			Expect(at).To(Equal(in))
			if idle {
				in.unused(s)
				Eventually(func() any { return now(ctx, s).Status.IdleSince }).ShouldNot(BeNil())
			}
			out = append(out, s)
		}
		return out
	}
	// unavailable returns how many sessions do not run according to the API server.
	unavailable := func(ctx context.Context) int {
		list := &api.VDISessionList{}
		Expect(admin.List(ctx, list)).To(Succeed())
		n := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase != api.PhaseRunning {
				n++
			}
		}
		return n
	}

	It("is empty in the end, and never more sessions are evicted at once than its drain budget allows", specs.Smoke, func(ctx SpecContext) {
		template(ctx, "browser")
		eu := join(ctx, "eu")
		sessions := several(ctx, 8, eu, true)
		us := join(ctx, "us")
		before := counted("vdi_hub_sessions_moved_total")
		w, stop := watchSessions(ctx)
		defer stop()
		drain(ctx, "eu", api.DrainLimits{MaxUnavailable: ptr.To(int32(2))})
		most, away := 0, map[string]bool{}
		Eventually(func(g Gomega) {
			for more := true; more; {
				select {
				case s := <-w:
					if delete(away, s.Name); s.Status.Phase != api.PhaseRunning {
						away[s.Name] = true
					}
					most = max(most, len(away))
				default:
					more = false
				}
			}
			g.Expect(most).To(BeNumerically("<=", 2))
			g.Expect(drained(ctx, "eu")(g)).To(HavePrefix("True/Drained"))
		}, "60s").Should(Succeed())
		for _, s := range sessions {
			_, at := running(ctx, s)
			Expect(at).To(Equal(us))
			Eventually(eventCount(ctx, s, api.EventMoved)).Should(Equal(1))
		}
		Expect(most).To(BeNumerically(">", 0))
		Expect(eu.sessions()).To(BeEmpty())
		Expect(counted("vdi_hub_sessions_moved_total")).To(Equal(before + 8))
	})

	It("continues under a new leader, which counts the sessions that the last one evicted", func(ctx SpecContext) {
		template(ctx, "browser")
		eu := join(ctx, "eu")
		sessions := several(ctx, 4, eu, true)
		join(ctx, "us")
		eu.set(func() { eu.holdStops = true })
		drain(ctx, "eu", api.DrainLimits{})
		Eventually(unavailable).WithArguments(ctx).Should(Equal(1))
		replaceHub()
		Eventually(drained(ctx, "eu")).Should(ContainSubstring("1 moving; 3 waiting for the drain budget"))
		Consistently(unavailable).WithArguments(ctx).Should(Equal(1))
		eu.set(func() { eu.holdStops = false })
		eu.finishStops()
		Eventually(drained(ctx, "eu"), "40s").Should(HavePrefix("True/Drained"))
		for _, s := range sessions {
			running(ctx, s)
		}
	})

	It("shows the drain to sessions in use, and moves them at the deadline", func(ctx SpecContext) {
		template(ctx, "browser")
		eu := join(ctx, "eu")
		s := several(ctx, 1, eu, false)[0]
		us := join(ctx, "us")
		deadline := metav1.NewTime(time.Now().Add(4 * time.Second)).Rfc3339Copy()
		drain(ctx, "eu", api.DrainLimits{Deadline: &deadline})
		Eventually(reason(ctx, s, api.ConditionScheduled)).Should(Equal("True/Draining"))
		Eventually(eventCount(ctx, s, api.EventDraining)).Should(Equal(1))
		Eventually(drained(ctx, "eu")).Should(ContainSubstring("1 in use, until they are idle, or " + deadline.UTC().Format(time.RFC3339)))
		Expect(eu.sessions()).To(HaveLen(1))
		Eventually(us.sessions).Should(HaveLen(1))
		Expect(time.Now()).To(BeTemporally(">=", deadline.Time))
		Eventually(drained(ctx, "eu")).Should(HavePrefix("True/Drained"))
	})

	It("keeps sessions that fit nowhere else until there is capacity, and those whose homes are there", func(ctx SpecContext) {
		template(ctx, "browser")
		template(ctx, "office", withHome(api.HomePerUser, "1Gi"))
		eu := join(ctx, "eu")
		s := several(ctx, 1, eu, true)[0]
		home, _ := running(ctx, create(ctx, "desktops", "home", func(s *api.SessionSpec) { s.Template = "office" }))
		us := join(ctx, "us", func(a *agent) { a.slots = 0 })
		drain(ctx, "eu", api.DrainLimits{})
		Eventually(drained(ctx, "eu")).Should(And(HavePrefix("False/SessionsRemain"), ContainSubstring("1 fit nowhere else"), ContainSubstring("1 have their homes there")))
		mc := &api.MemberCluster{}
		Expect(admin.Get(ctx, client.ObjectKey{Name: "eu"}, mc)).To(Succeed())
		Expect([]int32{mc.Status.Drain.NoCapacity, mc.Status.Drain.Homes}).To(Equal([]int32{1, 1}))
		us.set(func() { us.slots = 1 })
		us.send(func(m link.Member) { m.Capacity(us.report()) })
		Eventually(us.sessions).Should(HaveLen(1))
		Expect(now(ctx, s).Status.Epoch).To(Equal(int64(2)))
		Expect(now(ctx, home).Status.Placement.ClusterName).To(Equal("eu"))
		Eventually(eventCount(ctx, home, api.EventDraining)).Should(Equal(1))
		Expect(admin.Delete(ctx, home)).To(Succeed())
		Eventually(drained(ctx, "eu")).Should(HavePrefix("True/Drained"))
	})

	It("keeps the remaining sessions when the drain is canceled, and shows it on them", func(ctx SpecContext) {
		template(ctx, "browser")
		eu := join(ctx, "eu")
		s := several(ctx, 1, eu, false)[0]
		join(ctx, "us")
		drain(ctx, "eu", api.DrainLimits{})
		Eventually(reason(ctx, s, api.ConditionScheduled)).Should(Equal("True/Draining"))
		mc := &api.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "eu"}}
		edit(ctx, mc, func() { mc.Spec.Scheduling = api.SchedulingActive })
		Eventually(reason(ctx, s, api.ConditionScheduled)).Should(Equal("True/Placed"))
		Eventually(drained(ctx, "eu")).Should(BeEmpty())
		eu.unused(s)
		Eventually(func() any { return now(ctx, s).Status.IdleSince }).ShouldNot(BeNil())
		settled()
		Expect(now(ctx, s).Status.Epoch).To(Equal(int64(1)))
	})

	It("releases suspended sessions at once, and reschedules them when they are resumed", func(ctx SpecContext) {
		template(ctx, "browser")
		eu := join(ctx, "eu")
		s := several(ctx, 1, eu, false)[0]
		join(ctx, "us")
		edit(ctx, s, func() { s.Spec.OperatingMode = api.ModeSuspended })
		Eventually(func() bool { return now(ctx, s).Status.Placement.Idle }).Should(BeTrue())
		drain(ctx, "eu", api.DrainLimits{})
		Eventually(drained(ctx, "eu")).Should(HavePrefix("True/Drained"))
		Eventually(phase(ctx, s)).Should(HavePrefix("Pending: suspended, and placed nowhere"))
		edit(ctx, s, func() { s.Spec.OperatingMode = api.ModeRunning })
		_, at := running(ctx, s)
		Expect(at.name).To(Equal("us"))
	})
})

var _ = Describe("A session that an operator rebalances", func() {
	It("moves where there is capacity, and loses the annotation", func(ctx SpecContext) {
		template(ctx, "browser")
		eu := join(ctx, "eu")
		s, _ := running(ctx, create(ctx, "desktops", "s"))
		move := func() {
			edit(ctx, s, func() { metav1.SetMetaDataAnnotation(&s.ObjectMeta, api.AnnotationMove, "eu") })
		}
		annotated := func() map[string]string { return now(ctx, s).Annotations }
		join(ctx, "us")
		move()
		Eventually(annotated).ShouldNot(HaveKey(api.AnnotationMove))
		Eventually(eventCount(ctx, s, api.EventNotMoved)).Should(Equal(1), "it is in use")
		Expect(now(ctx, s).Status.Epoch).To(Equal(int64(1)))
		eu.unused(s)
		Eventually(func() any { return now(ctx, s).Status.IdleSince }).ShouldNot(BeNil())
		move()
		Eventually(func() int64 { return now(ctx, s).Status.Epoch }).Should(Equal(int64(2)))
		_, at := running(ctx, s)
		Expect(at.name).To(Equal("us"))
		Eventually(annotated).ShouldNot(HaveKey(api.AnnotationMove))
	})
})

// watchSessions returns every state of a session that the API server sends from now on.
func watchSessions(ctx context.Context) (seen <-chan *api.VDISession, stop func()) {
	GinkgoHelper()
	watcher, err := client.NewWithWatch(plane.Config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	w, err := watcher.Watch(ctx, &api.VDISessionList{})
	Expect(err).NotTo(HaveOccurred())
	out := make(chan *api.VDISession, 4096)
	go func() {
		for e := range w.ResultChan() {
			if s, is := e.Object.(*api.VDISession); is {
				out <- s
			}
		}
	}()
	return out, w.Stop
}

// unused has an agent report that a session's desktop is idle.
func (a *agent) unused(s *api.VDISession) {
	GinkgoHelper()
	at := metav1.NewTime(time.Now().Add(-time.Hour))
	a.updateStatus(s.UID, func(status *api.SessionAssignmentStatus) { status.IdleSince = &at })
}
