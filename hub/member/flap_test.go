package member

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func (x *controllers) member(name string) *v1alpha1.MemberCluster {
	mc := &v1alpha1.MemberCluster{}
	x.Expect(x.c.Get(context.Background(), client.ObjectKey{Name: name}, mc)).To(Succeed())
	return mc
}

func (x *fixture) renew(uid types.UID, instance string) {
	_, err := x.Renew(uid, link.Renewal{Instance: instance})
	x.Expect(err).NotTo(HaveOccurred())
}

// renewFor advances time while the agent renews.
func (x *fixture) renewFor(uid types.UID, instance string, d time.Duration) {
	for ; d > 0; d -= x.timings.Renew {
		x.clock.Step(min(d, x.timings.Renew))
		x.renew(uid, instance)
	}
}

var errReset = errors.New("connection reset by peer")

func TestFlappingStreamCostsNoWrites(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	m, _ := x.connect("uid-eu", "i1")
	x.reconcile("eu")
	x.clock.Step(backoff.StatusInterval)
	x.reconcile("eu")
	x.Expect(x.shows(x.member("eu"))).To(Equal([]string{"Ready=True/Connected", "Enrolled=True/ExternallyIssued", "Connected=True/Connected", "Synced=True/Synced"}))
	beats := func() int { return int(x.clock.Since(x.started) / x.timings.Heartbeat) }
	writes, beaten := x.writes, beats()
	for range 100 {
		m.Closed(errReset)
		x.reconcile("eu")
		x.clock.Step(2 * time.Second)
		x.reconcile("eu")
		var err error
		m, _, err = x.open("uid-eu", "i1")
		x.Expect(err).NotTo(HaveOccurred())
		x.reconcile("eu")
		x.clock.Step(time.Second)
		reportAll(m)
		x.reconcile("eu")
	}
	x.Expect(x.writes-writes).To(BeNumerically("<=", beats()-beaten+1), "heartbeats alone")
	x.Expect(x.uids["uid-eu"].heartbeats.LossesOfReady()).To(BeZero(), "a short reconnect is no flip")

	m.Closed(errReset)
	x.reconcile("eu")
	x.renewFor("uid-eu", "i1", x.timings.Suspect)
	result := x.reconcile("eu")
	x.Expect(result.RequeueAfter).To(BeNumerically(">", 0))
	mc := x.member("eu")
	x.Expect(x.shows(mc)).To(Equal([]string{"Ready=True/Connected", "Enrolled=True/ExternallyIssued", "Connected=False/Disconnected", "Synced=Unknown/NotConnected"}))
	x.Expect(mc.Status.Conditions[2].Message).To(HaveSuffix("Z: " + errReset.Error()))
}

func TestFlappingMemberCostsFewWrites(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	m, _ := x.connect("uid-eu", "i1")
	x.reconcile("eu")
	writes := x.writes
	const flaps = 20
	for range flaps {
		m.Closed(errReset)
		for range 20 {
			x.clock.Step(time.Second)
			x.reconcile("eu")
		}
		m, _ = x.connect("uid-eu", "i1")
		for range 5 {
			x.reconcile("eu")
			x.clock.Step(time.Second)
		}
	}
	x.Expect(x.writes-writes).To(BeNumerically("<=", 4*flaps), "lost, back, and what is coalesced of each; it was checked 25 times")
	x.Expect(x.uids["uid-eu"].heartbeats.LossesOfReady()).To(Equal(1), "it was never stable again")
}

func TestStalledMemberIsShownUntilItIsStableAgain(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	m, _ := x.connect("uid-eu", "i1")
	x.reconcile("eu")
	m.Closed(protocol.ErrStalled)
	x.reconcile("eu")
	x.renew("uid-eu", "i1")
	x.Expect(x.State("uid-eu").Health).To(Equal(health.Suspect), "the lease is not refused, and makes up for nothing")
	x.Expect(x.shows(x.member("eu"))).To(ContainElements("Ready=Unknown/Suspect", "Connected=False/Stalled"))
	x.connect("uid-eu", "i1")
	x.reconcile("eu")
	x.Expect(x.shows(x.member("eu"))).To(ContainElement("Ready=False/Recovering"))
	x.renewFor("uid-eu", "i1", x.timings.Stable)
	x.reconcile("eu")
	x.Expect(x.shows(x.member("eu"))).To(ContainElements("Ready=True/Connected", "Connected=True/Connected", "Synced=True/Synced"))
}

func TestMemberThatDisagreesIsShownAsResyncing(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	m, _ := x.connect("uid-eu", "i1")
	x.reconcile("eu")
	for agreement, want := range map[protocol.Agreement]string{
		protocol.Resyncing: "Synced=False/Resyncing", protocol.Differs: "Synced=False/Resyncing", protocol.Agrees: "Synced=True/Synced",
	} {
		m.Agreed(agreement)
		x.clock.Step(backoff.StatusInterval)
		x.reconcile("eu")
		x.Expect(x.shows(x.member("eu"))).To(ContainElements("Ready=True/Connected", "Connected=True/Connected", want))
	}
}

func TestAgentOfAnotherClusterIsReported(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	mc := x.member("eu")
	mc.Status.Fingerprint = "enrolled"
	x.Expect(x.c.Status().Update(context.Background(), mc)).To(Succeed())
	x.reconcile("eu")
	x.changes.take()
	for range 3 {
		_, err := x.Open(context.Background(), "uid-eu", &fleetv1.Hello{Fingerprint: "rebuilt\n", Instance: "i1"}, &peer{})
		x.Expect(err).To(MatchError(link.ErrFingerprint), "enrollment has bound it")
	}
	x.Expect(x.changes.take()).To(HaveLen(1), "reported once, however often it connects")
	x.reconcile("eu")
	got := x.member("eu")
	x.Expect(x.shows(got)).To(ContainElements("Ready=False/FingerprintChanged", "Connected=False/NeverConnected"))
	x.Expect(got.Status.Conditions[0].Message).To(ContainSubstring(`agent of cluster "rebuilt "`))

	_, err := x.Open(context.Background(), "uid-eu", &fleetv1.Hello{Fingerprint: "enrolled", Instance: "i2"}, &peer{})
	x.Expect(err).NotTo(HaveOccurred())
	x.reconcile("eu")
	x.Expect(x.shows(x.member("eu"))).To(ContainElement("Ready=True/Connected"))
}

func tooOld(version string) error {
	return fmt.Errorf("%w: the agent (version %s) supports versions 0 to 0, the hub 1 to 2: upgrade the agent", protocol.ErrVersion, version)
}

func TestIncompatibleAgentIsReported(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	x.clock.Step(x.timings.Suspect)
	x.changes.take()
	x.Refused("uid-none", tooOld("0.1"))
	for range 3 {
		x.Refused("uid-eu", tooOld("0.1"))
	}
	x.Expect(x.changes.take()).To(HaveLen(1), "reported once, however often it connects")
	x.reconcile("eu")
	got := x.member("eu")
	x.Expect(x.shows(got)).To(ContainElements("Ready=False/Incompatible", "Connected=False/NeverConnected"))
	x.Expect(got.Status.Conditions[0].Message).To(And(ContainSubstring("version 0.1"), HaveSuffix("upgrade the agent")))

	m, _ := x.connect("uid-eu", "i1")
	x.reconcile("eu")
	x.Expect(x.shows(x.member("eu"))).To(ContainElements("Ready=True/Connected", "Connected=True/Connected"), "it was upgraded")

	// The hub is upgraded, and the agent is not.
	m.Closed(errReset)
	x.clock.Step(x.timings.Suspect)
	x.reconcile("eu")
	x.Expect(x.shows(x.member("eu"))).To(ContainElements("Ready=Unknown/Suspect", "Connected=False/Disconnected"), "nothing is left of what was")
	x.Refused("uid-eu", tooOld("0.2"))
	x.reconcile("eu")
	x.Expect(x.shows(x.member("eu"))).To(ContainElements("Ready=False/Incompatible", "Connected=False/Incompatible"))
	x.clock.Step(x.timings.Unreachable)
	x.Refused("uid-eu", tooOld("0.3"))
	x.reconcile("eu")
	x.Expect(x.member("eu").Status.Conditions[2].Message).To(ContainSubstring("version 0.3"), "the other does not connect any more")
	x.renew("uid-eu", "i1")
	x.reconcile("eu")
	x.Expect(x.shows(x.member("eu"))).To(ContainElement("Ready=False/Recovering"), "its own agent is alive")
}

func TestRepeatedlyRefusedAgentsCostNoWrites(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	m, _ := x.connect("uid-eu", "i1")
	x.reconcile("eu")
	x.clock.Step(backoff.StatusInterval)
	x.reconcile("eu")
	x.changes.take()
	writes := x.writes
	// A refused agent connects beside a healthy one whose stream breaks now and then.
	for range 20 {
		m.Closed(errReset)
		x.Refused("uid-eu", tooOld("0.1"))
		x.reconcile("eu")
		x.clock.Step(2 * time.Second)
		x.reconcile("eu")
		m, _, _ = x.open("uid-eu", "i1")
		reportAll(m)
		x.Refused("uid-eu", tooOld("0.1"))
		x.reconcile("eu")
	}
	beats := int(20*2*time.Second/x.timings.Heartbeat) + 1
	x.Expect(x.writes-writes).To(BeNumerically("<=", beats), "heartbeats alone")
	// Two refused agents alternate, and no other is connected.
	m.Closed(errReset)
	x.clock.Step(x.timings.Unreachable)
	x.Refused("uid-eu", tooOld("0.1"))
	x.reconcile("eu")
	writes = x.writes
	x.changes.take()
	for range 20 {
		x.clock.Step(x.timings.Unreachable - time.Second)
		x.Refused("uid-eu", tooOld("0.2"))
		x.reconcile("eu")
		x.Refused("uid-eu", tooOld("0.1"))
		x.reconcile("eu")
	}
	x.Expect(x.writes).To(Equal(writes))
	x.Expect(x.changes.take()).To(BeEmpty())
}

func TestAgentOfARevokedMemberIsNotReportedAsIncompatible(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.clock.Step(x.timings.Suspect)
	x.Refused("uid-eu", tooOld("0.1"))
	x.Expect(x.uids["uid-eu"].incompatible).NotTo(BeEmpty())
	x.register("eu", "uid-eu", revoked)
	x.Refused("uid-eu", tooOld("0.1"))
	x.Expect(x.uids["uid-eu"].incompatible).To(BeEmpty())
}

func TestExpiringCertificateIsReported(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	mc := x.member("eu")
	soon := metav1.NewTime(x.clock.Now().Add(time.Hour))
	later := metav1.NewTime(x.clock.Now().Add(2 * time.Hour))
	mc.Status.Certificate = &v1alpha1.MemberCertificate{Serial: "a1", NotAfter: &soon, NextSerial: "b2", NextNotAfter: &later}
	x.Expect(x.c.Status().Update(context.Background(), mc)).To(Succeed())
	x.Expect(x.reconcile("eu").RequeueAfter).To(Equal(2 * time.Hour))
	x.clock.Step(90 * time.Minute)
	x.reconcile("eu")
	x.Expect(x.shows(x.member("eu"))).To(ContainElement("Enrolled=True/Enrolled"), "the next is valid still")
	x.clock.Step(30 * time.Minute)
	x.reconcile("eu")
	x.Expect(x.shows(x.member("eu"))).To(ContainElement("Enrolled=False/CertificateExpired"))
	x.Expect(x.recorder.Events).To(Receive(ContainSubstring("NeverConnected")))
	x.Expect(x.recorder.Events).To(Receive(And(ContainSubstring("CertificateExpired"), ContainSubstring("kubectl vdi join eu"))))
	x.Expect(x.recorder.Events).NotTo(Receive())
}

// jumped returns the same instant of the monotonic clock, with a wall clock that shows so
// many seconds more: what time.Now returns after the clock was set. A time.Time with a
// monotonic reading has the seconds of its wall clock above its 30 bits of nanoseconds.
func jumped(t time.Time, seconds int) time.Time {
	fields := (*struct {
		wall uint64
		ext  int64
	})(unsafe.Pointer(&t))
	fields.wall += uint64(int64(seconds)) << 30
	return t
}

func TestExpiryIsMeasuredByAMonotonicClock(t *testing.T) {
	x := newFixture(t)
	x.started = time.Now()
	now := x.started.Add(time.Minute)
	x.Expect(x.steady(jumped(now, 86400))).To(BeTemporally("==", x.started.Round(0).Add(time.Minute)))
}

func TestMetricsOfMembers(t *testing.T) {
	x := newFixture(t)
	collector := &memberCollector{}
	registry := prometheus.NewPedanticRegistry()
	x.Expect(registry.Register(collector)).To(Succeed())
	// series returns the series that are not 0, or all.
	series := func(zeros bool) []string {
		families, err := registry.Gather()
		x.Expect(err).NotTo(HaveOccurred())
		var out []string
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
				labels := ""
				for _, label := range metric.GetLabel() {
					labels += " " + label.GetValue()
				}
				if zeros || value != 0 {
					out = append(out, fmt.Sprintf("%s%s %.0f", strings.TrimPrefix(family.GetName(), "vdi_hub_"), labels, value))
				}
			}
		}
		return out
	}
	x.Expect(series(true)).To(BeEmpty(), "of a hub that does not lead yet")
	collector.fleet.Store(x.Fleet)
	x.register("us", "uid-us")
	x.register("eu", "uid-eu", func(mc *v1alpha1.MemberCluster) {
		expires := metav1.NewTime(time.Unix(1_700_086_400, 0))
		mc.Status.Certificate = &v1alpha1.MemberCertificate{Serial: "a1", NotAfter: &expires}
	})
	x.connect("uid-eu", "i1")
	x.renew("uid-eu", "i1")
	x.clock.Step(20 * time.Second)
	x.Expect(series(false)).To(ConsistOf(
		"failover_cut_off 1", "members NeverConnected 1", "members Suspect 1",
		"member_health us NeverConnected 1", "member_health eu Suspect 1",
		"member_flips_total eu 1", "member_nodes eu eu 100",
		"member_lease_remaining_seconds eu 160",
		"member_certificate_expiry_seconds eu 1700086400",
	))
	x.Expect(series(true)).To(ContainElements("member_health eu Ready 0", "member_flips_total us 0", "members Ready 0"))
	x.Remove("eu")
	x.Remove("us")
	x.Expect(series(true)).To(HaveLen(len(health.States())+4), "nothing is left of a member that was removed")
}

// A broken stream changes no session, so none is reconciled for it; the member's status shows it.
func TestABrokenStreamIsNoChangeOfHealth(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	x.Eventually(x.changes.take).Should(ContainElement(Change{Kind: MemberConnected, Member: "eu", UID: "uid-eu"}), "it is engaged")
	m.Agreed(protocol.Differs)
	x.Expect(x.changes.take()).To(Equal([]Change{{Kind: MemberStream, Member: "eu", UID: "uid-eu"}}))
	m.Closed(nil)
	x.Expect(x.changes.take()).To(Equal([]Change{{Kind: MemberStream, Member: "eu", UID: "uid-eu"}}))

	m, _ = x.connect("uid-eu", "i1")
	x.changes.take()
	m.Closed(protocol.ErrStalled)
	x.Expect(x.changes.take()).To(ContainElement(Change{Kind: MemberChanged, Member: "eu", UID: "uid-eu"}), "it is Suspect at once")
}
