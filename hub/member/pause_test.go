package member

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// watched returns a fleet that detects pauses of the hub; the test sets how often it checks.
func watched(t *testing.T) *fixture {
	x := newFixture(t)
	x.pauses.Start(x.clock.Now())
	return x
}

// runs advances time while the hub runs.
func (x *fixture) runs(d time.Duration) {
	for step := x.timings.Renew / health.ChecksPerRenew; d > 0; d -= step {
		x.clock.Step(min(d, step))
		x.mu.Lock()
		x.now()
		x.mu.Unlock()
	}
}

// runsRenewing advances time while the hub runs and an agent renews.
func (x *fixture) runsRenewing(uid string, d time.Duration) {
	for ; d > 0; d -= x.timings.Renew {
		x.runs(min(d, x.timings.Renew))
		x.renew(eu.UID, uid)
	}
}

func (x *fixture) is(name string) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	v := x.members[name].assess(x.timings, x.now())
	return strings.TrimSuffix(string(v.State)+"/"+string(v.Cause), "/")
}

func (x *fixture) losses(name string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	m := x.members[name]
	m.heartbeats.Update(x.timings, x.now())
	return m.heartbeats.LossesOfReady()
}

func TestPausedHubDoesNotCountThePauseAgainstItsMembers(t *testing.T) {
	x := watched(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	for range 6 {
		x.runsRenewing("i1", x.timings.Renew)
		x.clock.Step(time.Minute)
		x.Expect(x.is("eu")).To(Equal("Unknown"), "no time is known")
		x.Expect(x.Place(request("a"), 1).Placed).To(BeFalse())
		x.renew("uid-eu", "i1")
		x.Expect(x.is("eu")).To(Equal("Ready"), "its first heartbeat makes it so")
	}
	x.Expect(x.losses("eu")).To(BeZero())
	x.clock.Step(time.Minute)
	x.renew("uid-eu", "i1")
	x.Expect(x.is("eu")).To(Equal("Ready"), "whichever check is the first")
	x.Expect(x.Place(request("a"), 1).Placed).To(BeTrue())

	x.runs(x.timings.Suspect)
	x.Expect(x.is("eu")).To(Equal("Suspect/Silence"), "a hub that runs receives heartbeats")
	x.Expect(x.losses("eu")).To(Equal(1))
}

func TestMemberThatWasSilentBeforeThePauseStaysSo(t *testing.T) {
	x := watched(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	x.runs(20 * time.Second)
	for range 3 {
		x.clock.Step(time.Minute)
		x.Expect(x.is("eu")).To(Equal("Suspect/Silence"))
	}
	x.runs(19 * time.Second)
	x.Expect(x.is("eu")).To(Equal("Suspect/Silence"), "it was silent for 39 s while the hub was running")
	x.runs(time.Second)
	x.Expect(x.is("eu")).To(Equal("Unreachable/Silence"))
	x.Expect(x.losses("eu")).To(Equal(1))
	x.clock.Step(time.Minute)
	x.Expect(x.is("eu")).To(Equal("Unreachable/Silence"))
}

func TestMemberWithoutAHeartbeatAfterThePauseBecomesUnreachable(t *testing.T) {
	x := watched(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	x.clock.Step(2 * x.timings.Renew)
	x.Expect(x.is("eu")).To(Equal("Ready"), "its heartbeat is recent, however it is counted")
	x.runs(x.timings.Suspect - 2*x.timings.Renew)
	x.Expect(x.is("eu")).To(Equal("Unknown"), "it may have sent a heartbeat that the hub did not receive")
	// The hub pauses again and again: only the time that it runs counts.
	awake := x.timings.Suspect - 2*x.timings.Renew
	for ; awake < x.timings.Unreachable; awake += x.timings.Renew {
		x.clock.Step(x.timings.Suspect)
		x.Expect(x.is("eu")).To(Equal("Unknown"), "awake for %s", awake)
		x.runs(x.timings.Renew)
	}
	x.Expect(x.is("eu")).To(Equal("Unreachable/Silence"))
	x.Expect(x.losses("eu")).To(BeZero(), "no loss of Ready was observed")
	x.renew("uid-eu", "i1")
	x.Expect(x.is("eu")).To(Equal("Ready"))
}

func TestThePauseOfTheHubDoesNotCountAsStableTime(t *testing.T) {
	x := watched(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	x.runs(x.timings.Suspect)
	x.renew("uid-eu", "i1")
	x.runsRenewing("i1", 20*time.Second)
	x.clock.Step(time.Minute)
	x.renew("uid-eu", "i1")
	x.Expect(x.is("eu")).To(Equal("Suspect/Recovering"))
	x.runsRenewing("i1", 10*time.Second)
	x.Expect(x.is("eu")).To(Equal("Ready"), "stable for 30 s while the hub was running")
}

func TestStreamThatIsTooSlowAfterAPauseOfTheHubIsNoFailure(t *testing.T) {
	x := watched(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	x.clock.Step(time.Minute)
	x.renew("uid-eu", "i1")
	m.Closed(protocol.ErrStalled)
	x.Expect(x.is("eu")).To(Equal("Ready"), "it was the hub that did not read its answers")
	m, _ = x.connect("uid-eu", "i1")
	x.runsRenewing("i1", x.timings.Suspect)
	m.Closed(protocol.ErrStalled)
	x.Expect(x.is("eu")).To(Equal("Suspect/Stalled"))
}

func TestRestoredHubWaitsForItsMembersDespiteAPause(t *testing.T) {
	x := watched(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	x.register("us", "uid-us", connectedBefore)
	x.Restored()
	x.clock.Step(x.timings.Recovery)
	x.renew("uid-eu", "i1")
	x.Expect(x.Place(request("a"), 1).Reason).To(Equal("HubRestored"))
	x.runsRenewing("i1", x.timings.Recovery)
	x.Expect(x.Place(request("a"), 1).Placed).To(BeTrue())
}

func TestPauseDetectorChecksPeriodically(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- x.watchHealth(ctx) }()
	ran := func() health.PauseDetector {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.pauses
	}
	x.Eventually(x.clock.HasWaiters).Should(BeTrue())
	x.Eventually(ran).Should(Equal(since(x.clock.Now())))
	for range int(x.timings.Suspect / (x.timings.Renew / health.ChecksPerRenew)) {
		x.clock.Step(x.timings.Renew / health.ChecksPerRenew)
		x.Eventually(ran).Should(Equal(since(x.clock.Now())), "it checks by itself")
	}
	x.Expect(x.is("eu")).To(Equal("Suspect/Silence"))
	x.renew("uid-eu", "i1")
	x.clock.Step(time.Hour)
	x.Eventually(ran).Should(Equal(since(x.clock.Now())))
	x.Expect(x.losses("eu")).To(Equal(1), "that hour is not its fault")
	stop()
	x.Expect(<-done).To(Succeed())
}

// The controller does not check a member that is Ready by itself: it is notified.
func TestListenersAreNotifiedOfAMemberWhoseHeartbeatsEnd(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.connect("uid-eu", "i1")
	x.show("eu")
	x.Listen(x.changes.note)
	x.changes.take()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- x.watchHealth(ctx) }()
	x.Eventually(x.clock.HasWaiters).Should(BeTrue())
	x.clock.Step(x.timings.Suspect - time.Second)
	// It may still become engaged concurrently, of which listeners are notified as well.
	unhealthy := ContainElement(Change{Kind: MemberChanged, Member: "eu", UID: "uid-eu"})
	x.Consistently(x.changes.take, 50*time.Millisecond).ShouldNot(unhealthy)
	x.clock.Step(time.Second)
	x.Eventually(x.changes.take).Should(unhealthy)
	stop()
	x.Expect(<-done).To(Succeed())
}

// since returns a detector whose last check was at a time.
func since(ran time.Time) health.PauseDetector {
	var p health.PauseDetector
	p.Start(ran)
	return p
}

// recordingManager is a manager that records the runnables that are added to it.
type recordingManager struct {
	manager.Manager
	added []manager.Runnable
}

func (m *recordingManager) Add(r manager.Runnable) error {
	m.added = append(m.added, r)
	return m.Manager.Add(r)
}

func TestTheLeaderRunsThePauseDetector(t *testing.T) {
	x := newControllers(t)
	inner, err := manager.New(&rest.Config{Host: "127.0.0.1:1"}, manager.Options{
		Scheme: x.scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return x.c.RESTMapper(), nil },
	})
	x.Expect(err).NotTo(HaveOccurred())
	mgr := &recordingManager{Manager: inner}
	x.Expect(x.members.SetupWithManager(mgr)).To(Succeed())
	ctx, stop := context.WithCancel(context.Background())
	stop()
	for _, r := range mgr.added {
		if f, ok := r.(manager.RunnableFunc); ok {
			x.Expect(f(ctx)).To(Succeed())
		}
	}
	x.Expect(x.pauses).To(Equal(since(x.clock.Now())))
}
