package protocol

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// TestOneVersionApart runs a hub and an agent, of which one supports more than the other,
// through a session's lifecycle, a lost stream and an upgrade of the older, over real
// TLS. Different versions of the protocol are tested by testdata/skew.txt and
// TestANextAgent.
func TestOneVersionApart(t *testing.T) {
	next := []string{"next"}
	for name, c := range map[string]struct{ hub, agent []string }{
		"the agent is newer": {agent: next}, "the hub is newer": {hub: next}, "both are": {hub: next, agent: next},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := patient(t)
			dir := newDirectory("m1")
			h := startHub(t, dir, func(h *hubServer) { h.tuning.Capabilities = c.hub })
			m1, held := dir.of("m1"), newMember()
			agent := startTunedAgent(t, h, agentFiles(t, h, "m1"), "i1", "localhost", c.agent, nil, held)
			shows := func(uid string) func() item {
				return func() item { return get(m1, func(r *record) item { return r.cache[types.UID(uid)] }) }
			}
			g.Eventually(m1.connected).Should(BeTrue())
			m1.put(assignment("a", 1, "h1"))
			g.Eventually(shows("a")).Should(Equal(item{epoch: 1, hash: "h1", state: "Active"}))

			// A stream is lost, and a status changes meanwhile.
			h.stop()
			agent.sets("a", "Active/meanwhile")
			h.term = 2
			h.start()
			g.Eventually(m1.connected).Should(BeTrue())
			g.Eventually(shows("a")).Should(Equal(item{epoch: 1, hash: "h1", state: "Active/meanwhile"}))
			m1.put(withdrawal("a", 1))
			g.Eventually(func() []protocol.Result { return get(m1, func(r *record) []protocol.Result { return r.results }) }).
				Should(ContainElement(And(HaveField("Code", protocol.Stored), HaveField("SpecHash", ""))))
			agreed := func() []protocol.Agreement {
				return get(m1, func(r *record) []protocol.Agreement { return r.agreements })
			}
			g.Eventually(agreed).Should(ContainElement(protocol.Agrees))

			// The older one is upgraded, and each requires the new capability of the other.
			agent.stop()
			h.stop()
			get(m1, func(r *record) bool {
				r.agreements = nil
				return true
			})
			h.tuning.Capabilities, h.tuning.RequiredCapabilities, h.term = next, next, 3
			h.start()
			startTunedAgent(t, h, agentFiles(t, h, "m1"), "i2", "localhost", next, next, held)
			g.Eventually(agreed).Should(ContainElement(protocol.Agrees))
			g.Eventually(func() string { return shows("a")().state }).Should(Equal("Stopping"))
		})
	}
}

// TestANextAgent connects an agent of a synthetic next version: if it also supports this
// one, this one is used; else it is refused with what to upgrade.
func TestANextAgent(t *testing.T) {
	g := patient(t)
	h := startHub(t, newDirectory("m1"))
	client := rawClient(t, h, agentFiles(t, h, "m1"))
	for _, least := range []int32{1, 2} {
		stream, err := client.Connect(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		greeting := hello("i1")
		greeting.GetHello().MinProtocol, greeting.GetHello().MaxProtocol = least, 2
		g.Expect(stream.Send(greeting)).To(Succeed())
		answer, err := stream.Recv()
		if least == 1 {
			g.Expect(answer, err).To(HaveField("GetWelcome().GetProtocol()", int32(1)))
			continue
		}
		g.Expect(status.Code(err)).To(Equal(codes.FailedPrecondition))
		g.Expect(err).To(MatchError(HaveSuffix("supports versions 2 to 2, the hub 1 to 1: upgrade the hub")))
	}
}

// TestAResyncOverTheWire deletes the hub's state of a session while the stream
// continues.
func TestAResyncOverTheWire(t *testing.T) {
	g := patient(t)
	dir := newDirectory("m1")
	h := startHub(t, dir)
	m1 := dir.of("m1")
	startAgent(t, h, agentFiles(t, h, "m1"), "i1")
	g.Eventually(m1.connected).Should(BeTrue())
	m1.put(assignment("a", 1, "h1"))
	g.Eventually(func() string { return get(m1, func(r *record) string { return r.cache["a"].hash }) }).Should(Equal("h1"))
	g.Eventually(func() []protocol.Agreement {
		return get(m1, func(r *record) []protocol.Agreement { return r.agreements })
	}).
		Should(ContainElement(protocol.Agrees))
	connections := get(m1, func(r *record) int { return len(r.closed) })
	get(m1, func(r *record) bool {
		delete(r.cache, "a")
		delete(r.reported, "a")
		r.ledger.Delete("a")
		r.agreements = nil
		return true
	})
	g.Eventually(func() string { return get(m1, func(r *record) string { return r.cache["a"].hash }) }).Should(Equal("h1"))
	g.Eventually(func() []protocol.Agreement {
		return get(m1, func(r *record) []protocol.Agreement { return r.agreements })
	}).
		Should(ContainElements(protocol.Resyncing, protocol.Agrees))
	g.Expect(get(m1, func(r *record) int { return len(r.closed) })).To(Equal(connections), "the stream went on")
}

// TestAnUnsupportedCapabilityIsRefused requires the cause and the remedy in the error of
// the end that reports it.
func TestAnUnsupportedCapabilityIsRefused(t *testing.T) {
	g := patient(t)
	dir := newDirectory("m1")
	h := startHub(t, dir)
	client := rawClient(t, h, agentFiles(t, h, "m1"))
	stream, err := client.Connect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	demanding := hello("i1")
	demanding.GetHello().RequiredCapabilities = []string{"time-travel"}
	g.Expect(stream.Send(demanding)).To(Succeed())
	_, err = stream.Recv()
	g.Expect(status.Code(err)).To(Equal(codes.FailedPrecondition))
	g.Expect(err).To(MatchError(And(ContainSubstring(`requires "time-travel"`), ContainSubstring("upgrade the hub"))))
	g.Expect(get(dir.of("m1"), func(r *record) []error { return r.closed })).To(BeEmpty(), "it was never admitted")
}

// TestAnAgentThatDoesNotAcknowledgeIsStalled connects an agent that reads and renews
// only.
func TestAnAgentThatDoesNotAcknowledgeIsStalled(t *testing.T) {
	g := patient(t)
	dir := newDirectory("m1")
	h := startHub(t, dir, func(h *hubServer) { h.tuning.AckTimeout = 500 * time.Millisecond })
	client, m1 := rawClient(t, h, agentFiles(t, h, "m1")), dir.of("m1")
	stream := openEmpty(t, client)
	g.Eventually(m1.connected).Should(BeTrue())
	m1.put(assignment("a", 1, "h"))
	g.Expect(stream.Recv()).To(HaveField("GetOrders().GetSequence()", uint64(1)))
	// Its lease is still renewed.
	_, err := client.RenewLease(t.Context(), &fleetv1.RenewLeaseRequest{Instance: "i1"})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = stream.Recv()
	g.Expect(status.Code(err)).To(Equal(codes.DeadlineExceeded))
	g.Eventually(func() bool {
		return get(m1, func(r *record) bool { return len(r.closed) == 1 && errors.Is(r.closed[0], protocol.ErrStalled) })
	}).Should(BeTrue())
}

// TestAnAgentThatDoesNotReadIsStalled sends it more than any window of the
// transport holds.
func TestAnAgentThatDoesNotReadIsStalled(t *testing.T) {
	g := patient(t)
	dir := newDirectory("m1")
	h := startHub(t, dir, func(h *hubServer) { h.sendTimeout = 500 * time.Millisecond })
	m1 := dir.of("m1")
	openEmpty(t, rawClient(t, h, agentFiles(t, h, "m1")))
	g.Eventually(m1.connected).Should(BeTrue())
	for i := range 64 {
		order := assignment(fmt.Sprintf("s%d", i), 1, "h")
		order.Assign.Spec.Desktop.Args = []string{strings.Repeat("x", 512<<10)}
		m1.put(order)
	}
	g.Eventually(func() bool {
		return get(m1, func(r *record) bool { return len(r.closed) == 1 && errors.Is(r.closed[0], protocol.ErrStalled) })
	}).Should(BeTrue())
}

// openEmpty opens the stream of a member that holds nothing.
func openEmpty(t *testing.T, client fleetv1.FleetServiceClient) fleetv1.FleetService_ConnectClient {
	t.Helper()
	g := patient(t)
	stream, err := client.Connect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stream.Send(hello("i1"))).To(Succeed())
	g.Expect(stream.Recv()).To(HaveField("GetWelcome().GetProtocol()", int32(1)))
	g.Expect(stream.Send(emptyInventory())).To(Succeed())
	g.Expect(stream.Recv()).To(HaveField("GetInventoryRequest()", Not(BeNil())))
	return stream
}
