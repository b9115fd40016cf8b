package session_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/session"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// memberClock is that of the next agent that starts.
var memberClock clock.PassiveClock = clock.RealClock{}

// ahead is a clock that may be moved ahead, and goes on from there.
type ahead struct{ by atomic.Int64 }

func (c *ahead) Now() time.Time                  { return time.Now().Add(time.Duration(c.by.Load())) }
func (c *ahead) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// pass advances time, and has the agent reconcile the session.
func (c *ahead) pass(ctx context.Context, d time.Duration, a *api.SessionAssignment) {
	GinkgoHelper()
	c.by.Add(int64(d))
	edit(ctx, a, func(a *api.SessionAssignment) {
		metav1.SetMetaDataAnnotation(&a.ObjectMeta, "test/pass", strconv.FormatInt(c.by.Load(), 10))
	})
}

// withClock has an agent whose clock the test moves. Such a test is Serial.
func withClock() *ahead {
	c := &ahead{}
	stopAgent()
	memberClock = c
	startAgent()
	DeferCleanup(func() {
		stopAgent()
		memberClock = clock.RealClock{}
		startAgent()
	})
	return c
}

func timeout(d api.Duration) func(*api.SessionAssignment) {
	return func(a *api.SessionAssignment) { a.Spec.Timeout = d }
}

// expectUsed waits until no run is on, and returns how long the session has
// run.
func expectUsed(ctx context.Context, a *api.SessionAssignment) time.Duration {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(a), a)).To(Succeed())
		g.Expect(a.Status.RunningSince).To(BeNil())
		g.Expect(a.Status.TimeUsed).NotTo(BeEmpty())
	}).Should(Succeed())
	used, ok := a.Status.TimeUsed.Value()
	Expect(ok).To(BeTrue())
	return used
}

// stays checks that the desktop goes on in the same run.
func stays(ctx context.Context, a *api.SessionAssignment) {
	GinkgoHelper()
	uid, since := get(ctx, podOf(a)).UID, a.Status.RunningSince.DeepCopy()
	Consistently(ctx, func(g Gomega) {
		pod := get(ctx, podOf(a))
		g.Expect(pod.UID).To(Equal(uid))
		g.Expect(pod.DeletionTimestamp).To(BeNil())
		// After a clock was set it is reckoned again, in whole seconds.
		g.Expect(get(ctx, a).Status.RunningSince.Time).To(BeTemporally("~", since.Time, 2*time.Second))
	}).WithTimeout(time.Second).Should(Succeed())
}

// No spec has a hub: the agent is alone.
var _ = Describe("A session's time", Serial, func() {
	It("ends the desktop, and an extension resumes it", func(ctx SpecContext) {
		c := withClock()
		a := running(ctx, timeout("8h"), home(api.HomePerSession))
		Expect(a.Status.RunningSince).NotTo(BeNil())
		c.pass(ctx, 7*time.Hour+56*time.Minute, a)
		Eventually(ctx, events(ctx, a)).Should(ContainElement(api.EventExpiringSoon))
		stays(ctx, a)

		c.pass(ctx, 4*time.Minute, a)
		expectGone(ctx, podOf(a))
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonTimeExpired, "raise spec.timeout")
		Expect(expectUsed(ctx, a)).To(BeNumerically("~", 8*time.Hour, time.Minute))
		Expect(a.TimeExpired()).To(BeTrue())
		Expect(a.Status.Failure).To(BeNil())
		Eventually(ctx, events(ctx, a)).Should(ContainElement(api.EventExpired))
		get(ctx, claimOf(a))
		before := len(tally.of(a.Name))
		Consistently(func() []string { return tally.of(a.Name)[before:] }).Should(BeEmpty())

		By("raising the timeout")
		edit(ctx, a, timeout("10h"))
		expectReady(ctx, a)
		c.pass(ctx, 110*time.Minute, a)
		stays(ctx, a)
		c.pass(ctx, 15*time.Minute, a)
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonTimeExpired, "10h")
	}, SpecTimeout(3*time.Minute))

	It("does not pass while it is suspended", func(ctx SpecContext) {
		c := withClock()
		a := running(ctx, timeout("8h"))
		c.pass(ctx, 3*time.Hour, a)
		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.RunState = api.ModeSuspended })
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonSuspended, "")
		used := expectUsed(ctx, a)
		Expect(used).To(BeNumerically("~", 3*time.Hour, time.Minute))
		c.pass(ctx, 100*time.Hour, a)
		Expect(expectUsed(ctx, a)).To(Equal(used))

		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.RunState = api.ModeRunning })
		expectReady(ctx, a)
		Expect(a.Status.TimeUsed).To(Equal(api.DurationOf(used)))
		c.pass(ctx, 4*time.Hour+55*time.Minute, a)
		stays(ctx, a)
		c.pass(ctx, 5*time.Minute, a)
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonTimeExpired, "")
	}, SpecTimeout(3*time.Minute))

	It("is neither longer nor shorter for an agent that was away", func(ctx SpecContext) {
		c := withClock()
		a := running(ctx, timeout("8h"))
		before := len(tally.of(a.Name))
		for range 3 {
			stopAgent()
			c.by.Add(int64(2 * time.Hour))
			startAgent()
		}
		stays(ctx, a)
		Expect(tally.of(a.Name)[before:]).To(BeEmpty())
		c.pass(ctx, 2*time.Hour-time.Minute, a)
		stays(ctx, a)

		By("ending while no agent runs")
		stopAgent()
		c.by.Add(int64(2 * time.Minute))
		startAgent()
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonTimeExpired, "")
		Expect(expectUsed(ctx, a)).To(BeNumerically("~", 8*time.Hour+time.Minute, time.Minute))
	}, SpecTimeout(3*time.Minute))

	It("ends in time by itself", func(ctx SpecContext) {
		a := running(ctx, timeout("3s"))
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonTimeExpired, "")
		Expect(expectUsed(ctx, a)).To(BeNumerically("~", 3*time.Second, 2*time.Second))
	}, SpecTimeout(3*time.Minute))
})

// reporting is a desktop that reports whether it is used.
type reporting struct {
	*httptest.Server
	status atomic.Int64
	// usedAt is when it was used last, as time.Time.UnixNano.
	usedAt atomic.Int64
}

func newReporting() *reporting {
	d := &reporting{}
	d.status.Store(http.StatusOK)
	d.usedAt.Store(time.Now().UnixNano())
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/idle" {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(int(d.status.Load()))
		_, _ = fmt.Fprintf(w, `{"idleSeconds": %f}`, time.Since(time.Unix(0, d.usedAt.Load())).Seconds())
	}))
	DeferCleanup(d.Close)
	return d
}

func (d *reporting) port() int32 {
	u, err := url.Parse(d.URL)
	Expect(err).NotTo(HaveOccurred())
	port, err := strconv.ParseInt(u.Port(), 10, 32)
	Expect(err).NotTo(HaveOccurred())
	return int32(port)
}

// runningAt runs a session with an idle timeout, whose Pod has the address of
// the desktop.
func (d *reporting) runningAt(ctx context.Context, idle api.Duration) *api.SessionAssignment {
	GinkgoHelper()
	a := running(ctx, func(a *api.SessionAssignment) {
		a.Spec.IdleTimeout = idle
		a.Spec.Desktop.Port = d.port()
		a.Spec.Desktop.Activity.Path = "/idle"
	})
	pod := get(ctx, podOf(a))
	before := pod.DeepCopy()
	pod.Status.PodIP = net.IPv4(127, 0, 0, 1).String()
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	Expect(admin.Status().Patch(ctx, pod, client.MergeFrom(before))).To(Succeed())
	return a
}

var _ = Describe("A desktop that reports whether it is used", Serial, func() {
	BeforeEach(func() {
		withAgent(func(o *session.Options) { o.Activity.MinInterval = 100 * time.Millisecond })
	})

	It("runs while it is used, and fails when it is idle for too long", func(ctx SpecContext) {
		desktop := newReporting()
		a := desktop.runningAt(ctx, "4s")
		Consistently(ctx, func(g Gomega) {
			desktop.usedAt.Store(time.Now().UnixNano())
			g.Expect(get(ctx, a).Status.Failure).To(BeNil())
			g.Expect(get(ctx, podOf(a)).DeletionTimestamp).To(BeNil())
		}).WithTimeout(6 * time.Second).WithPolling(100 * time.Millisecond).Should(Succeed())

		left := time.Now()
		expectGone(ctx, podOf(a))
		Expect(time.Since(left)).To(BeNumerically(">", 3*time.Second))
		Expect(get(ctx, a).FailedPermanently()).To(BeTrue())
		Expect(a.Status.Failure.Reason).To(Equal(api.ReasonIdleExpired))
		Expect(a.Status.Failure.Message).To(ContainSubstring("spec.attempt"))
		expectUsed(ctx, a)
		Eventually(ctx, events(ctx, a)).Should(ContainElement(api.EventExpiringSoon))
		Consistently(ctx, func() error {
			return admin.Get(ctx, client.ObjectKeyFromObject(a), podOf(a))
		}).ShouldNot(Succeed())

		By("retrying")
		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.Attempt++ })
		expectReady(ctx, a)
		Expect(a.FailedPermanently()).To(BeFalse())
	}, SpecTimeout(3*time.Minute))

	It("keeps running, with an event, when its answer is invalid", func(ctx SpecContext) {
		desktop := newReporting()
		desktop.status.Store(http.StatusInternalServerError)
		a := desktop.runningAt(ctx, "1s")
		Eventually(ctx, events(ctx, a)).Should(ContainElement(api.EventActivityUnknown))
		stays(ctx, a)

		By("giving a valid answer")
		desktop.status.Store(http.StatusOK)
		expectGone(ctx, podOf(a))
		Expect(get(ctx, a).FailedPermanently()).To(BeTrue())
	}, SpecTimeout(3*time.Minute))
})
