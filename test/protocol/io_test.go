package protocol

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	hublink "github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/pki"
	"github.com/vdi-fleet/vdi-fleet/test/harness/proxy"
)

func agentFiles(t *testing.T, h *hubServer, member string) harness.LinkFiles {
	t.Helper()
	files, err := h.pki.Agent(member, member)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestAnAgentIsServedAndComesBack(t *testing.T) {
	g := patient(t)
	dir := newDirectory("m1")
	h := startHub(t, dir)
	agent := startAgent(t, h, agentFiles(t, h, "m1"), "i1")
	m1 := dir.of("m1")
	g.Eventually(m1.connected).Should(BeTrue())
	g.Eventually(func() int { return get(m1, func(r *record) int { return len(r.capacity) }) }).Should(BeNumerically(">", 0))

	m1.put(assignment("a", 1, "h1"))
	g.Eventually(func() []protocol.Result { return get(m1, func(r *record) []protocol.Result { return r.results }) }).
		Should(ContainElement(HaveField("Code", protocol.Stored)))
	g.Eventually(func() item { return get(m1, func(r *record) item { return r.cache["a"] }) }).
		Should(Equal(item{epoch: 1, hash: "h1", state: "Active"}))
	agent.sets("a", "Active/ready")
	g.Eventually(func() string { return get(m1, func(r *record) string { return r.cache["a"].state }) }).Should(Equal("Active/ready"))
	g.Eventually(func() int { return get(m1, func(r *record) int { return r.renewals }) }).Should(BeNumerically(">", 2))

	// The leader stops, and another with a higher term replaces it.
	h.stop()
	g.Expect(m1.connected()).To(BeFalse())
	h.term = 2
	h.start()
	g.Eventually(m1.connected).Should(BeTrue())
	g.Expect(get(m1, func(r *record) item { return r.cache["a"] })).To(Equal(item{epoch: 1, hash: "h1", state: "Active/ready"}))

	// Orders of a lower term are ignored.
	h.stop()
	h.term = 1
	connections := get(m1, func(r *record) int { return r.inventories })
	h.start()
	g.Consistently(m1.connected, "300ms").Should(BeFalse())
	g.Expect(get(m1, func(r *record) int { return r.inventories })).To(Equal(connections))
	agent.mu.Lock()
	defer agent.mu.Unlock()
	g.Expect(agent.terms).To(Equal([]int64{1, 2}))
}

// TestAStalledAgentDelaysNoOther connects an agent that stops reading, as a
// suspended process does, while the hub has megabytes to send to it.
func TestAStalledAgentDelaysNoOther(t *testing.T) {
	g := patient(t)
	dir := newDirectory("stalled", "m1")
	h := startHub(t, dir)
	stream, err := rawClient(t, h, agentFiles(t, h, "stalled")).Connect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(stream.Send(hello("i0"))).To(Succeed())
	g.Expect(stream.Recv()).To(HaveField("GetWelcome()", Not(BeNil())))
	g.Expect(stream.Send(emptyInventory())).To(Succeed())
	stalled, m1 := dir.of("stalled"), dir.of("m1")
	g.Eventually(stalled.connected).Should(BeTrue())

	const many, size = 4000, 8 << 10 // 32 MB, far more than any window holds
	for i := range many {
		order := assignment(fmt.Sprintf("s%d", i), 1, "h")
		order.Assign.Spec.Desktop.Args = []string{strings.Repeat("x", size)}
		stalled.put(order)
	}
	startAgent(t, h, agentFiles(t, h, "m1"), "i1")
	g.Eventually(m1.connected).Should(BeTrue())
	m1.put(assignment("a", 1, "h1"))
	g.Eventually(func() int { return get(m1, func(r *record) int { return len(r.results) }) }).Should(Equal(1))
	g.Expect(stalled.connected()).To(BeTrue(), "the stalled agent was still connected meanwhile")

	// The hub can end the stream although the agent does not read, and Put has no
	// effect then.
	peer := get(stalled, func(r *record) hublink.Peer { return r.peer })
	peer.Close(errors.New("silent for too long"))
	g.Eventually(stalled.connected).Should(BeFalse())
	peer.Put(assignment("z", 1, "h"))
	g.Expect(get(stalled, func(r *record) []error { return r.closed })).To(ConsistOf(MatchError("silent for too long")))
	// Stopping the hub does not wait for the agent either.
	h.stop()
}

func TestAgentsThatAreAdmitted(t *testing.T) {
	dir := newDirectory("m1", "connected")
	h := startHub(t, dir)
	write := func(name string, ca *pki.CA, request pki.CertRequest) harness.LinkFiles {
		files, err := h.pki.Write(name, ca, request)
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	other, err := pki.NewCA("other")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := harness.AgentRequest("m1")
	elsewhere.URIs = []string{"spiffe://elsewhere.test/cluster/m1/agent"}
	two := harness.AgentRequest("m1")
	two.URIs = append(two.URIs, harness.AgentRequest("connected").URIs...)
	connected := dir.of("connected")
	connected.peer, connected.hello = idlePeer{}, &fleetv1.Hello{}

	for name, tc := range map[string]struct {
		files harness.LinkFiles
		want  codes.Code
	}{
		"a member's agent":          {write("ok", h.pki.CA, harness.AgentRequest("m1")), codes.OK},
		"no certificate":            {harness.LinkFiles{}, codes.Unauthenticated},
		"another authority's":       {write("other", other, harness.AgentRequest("m1")), codes.Unavailable},
		"an expired certificate":    {write("expired", h.pki.CA, harness.AgentRequest("m1").Expired()), codes.Unavailable},
		"an unknown member":         {write("unknown", h.pki.CA, harness.AgentRequest("unknown")), codes.PermissionDenied},
		"another trust domain":      {write("elsewhere", h.pki.CA, elsewhere), codes.PermissionDenied},
		"two identities":            {write("two", h.pki.CA, two), codes.PermissionDenied},
		"the hub's own certificate": {h.files, codes.PermissionDenied},
		"a second agent":            {write("second", h.pki.CA, harness.AgentRequest("connected")), codes.AlreadyExists},
	} {
		t.Run(name, func(t *testing.T) {
			client := rawClient(t, h, tc.files)
			if got := status.Code(open(t, client)); got != tc.want {
				t.Errorf("Connect: %s, want %s", got, tc.want)
			}
			if tc.want == codes.OK {
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if _, err := client.RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "i1"}); err == nil {
				t.Error("RenewLease was admitted")
			}
		})
	}
}

// open sends a hello and waits for the response.
func open(t *testing.T, client fleetv1.FleetServiceClient) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	stream, err := client.Connect(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(hello("i1")); err != nil {
		return errors.Join(err, streamError(stream))
	}
	_, err = stream.Recv()
	return err
}

func streamError(stream interface {
	Recv() (*fleetv1.ConnectResponse, error)
}) error {
	_, err := stream.Recv()
	return err
}

type idlePeer struct{}

func (idlePeer) Put(protocol.Order)                {}
func (idlePeer) SetTemplates(*fleetv1.TemplateSet) {}
func (idlePeer) SetDoor(*fleetv1.DoorConfig)       {}
func (idlePeer) Close(error)                       {}

func TestAnAgentTrustsItsHubOnly(t *testing.T) {
	g := patient(t)
	dir := newDirectory("m1")
	h := startHub(t, dir)
	other, err := harness.NewLinkPKI(t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	files := agentFiles(t, h, "m1")
	otherCA := files
	otherCA.CAFile = other.CAFile()
	startAgent(t, h, otherCA, "i1")
	startAgentFor(t, h, files, "i1", "elsewhere.example")
	g.Consistently(func() hublink.Peer { return get(dir.of("m1"), func(r *record) hublink.Peer { return r.peer }) }, "500ms").Should(BeNil())
}

func TestNoPlaintext(t *testing.T) {
	h := startHub(t, newDirectory("m1"))
	conn, err := net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	if err == nil && answer[0] != 0x15 { // a TLS alert
		t.Errorf("an answer in the clear: %q", answer[:n])
	}
}

func TestAnAgentThatDoesNotOpenIsDisconnected(t *testing.T) {
	g := patient(t)
	dir := newDirectory("m1")
	h := startHub(t, dir, func(h *hubServer) { h.helloTimeout = 200 * time.Millisecond })
	client := rawClient(t, h, agentFiles(t, h, "m1"))
	silent, err := client.Connect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status.Code(streamError(silent))).To(Equal(codes.DeadlineExceeded))
	g.Expect(get(dir.of("m1"), func(r *record) []error { return r.closed })).To(BeEmpty(), "it was never admitted")

	withheld, err := client.Connect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(withheld.Send(hello("i1"))).To(Succeed())
	g.Expect(withheld.Recv()).To(HaveField("GetWelcome()", Not(BeNil())))
	g.Expect(status.Code(streamError(withheld))).To(Equal(codes.DeadlineExceeded))
	g.Eventually(func() int { return get(dir.of("m1"), func(r *record) int { return len(r.closed) }) }).Should(Equal(1))

	opened, err := client.Connect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(opened.Send(hello("i1"))).To(Succeed())
	g.Expect(opened.Send(emptyInventory())).To(Succeed())
	g.Eventually(dir.of("m1").connected).Should(BeTrue())
	g.Consistently(dir.of("m1").connected, "500ms").Should(BeTrue())
}

// TestASilentNetworkIsDetected cuts the network so that neither end is notified.
// TCP detects it after minutes; the failing renewals detect it at once.
func TestASilentNetworkIsDetected(t *testing.T) {
	for _, cut := range []proxy.CutMode{proxy.CutBlackhole, proxy.CutToHub, proxy.CutToAgent} {
		t.Run(string(cut), func(t *testing.T) {
			t.Parallel()
			g := patient(t)
			dir := newDirectory("m1")
			h := startHub(t, dir)
			link, err := proxy.Start("127.0.0.1:0", []string{h.address})
			g.Expect(err).NotTo(HaveOccurred())
			t.Cleanup(func() { _ = link.Stop() })
			behind := *h
			behind.address = link.Addr()
			startAgent(t, &behind, agentFiles(t, h, "m1"), "i1")
			m1 := dir.of("m1")
			g.Eventually(m1.connected).Should(BeTrue())
			before := get(m1, func(r *record) int { return r.inventories })
			g.Expect(link.Cut(cut)).To(Succeed())
			m1.put(assignment("a", 1, "h"))
			g.Consistently(func() int { return get(m1, func(r *record) int { return r.inventories }) }, "4s").Should(Equal(before))
			// The withheld messages are delivered now; but the agent has closed that
			// connection, and opens another.
			g.Expect(link.Heal()).To(Succeed())
			g.Eventually(func() int { return get(m1, func(r *record) int { return r.inventories }) }).Should(BeNumerically(">", before))
			g.Eventually(m1.connected).Should(BeTrue())
			m1.put(assignment("a", 1, "h"))
			g.Eventually(func() string { return get(m1, func(r *record) string { return r.cache["a"].hash }) }).Should(Equal("h"))
		})
	}
}

func TestABugCostsOneStream(t *testing.T) {
	g := patient(t)
	dir := newDirectory("m1", "m2")
	h := startHub(t, dir)
	m1, m2 := dir.of("m1"), dir.of("m2")
	m1.panics = true
	startAgent(t, h, agentFiles(t, h, "m1"), "i1")
	startAgent(t, h, agentFiles(t, h, "m2"), "i2")
	g.Eventually(m1.connected).Should(BeTrue())
	g.Eventually(m2.connected).Should(BeTrue())
	m1.put(assignment("a", 1, "h"))
	g.Eventually(func() int { return get(m1, func(r *record) int { return len(r.closed) }) }).Should(BeNumerically(">=", 1))
	m2.put(assignment("b", 1, "h"))
	g.Eventually(func() int { return get(m2, func(r *record) int { return len(r.results) }) }).Should(Equal(1))
	g.Expect(get(m2, func(r *record) int { return len(r.closed) })).To(BeZero())
}

func TestCertificateFilesAreReadAgain(t *testing.T) {
	g := patient(t)
	dir := newDirectory("m1")
	h := startHub(t, dir)
	next, err := pki.NewCA("next")
	g.Expect(err).NotTo(HaveOccurred())
	files, err := h.pki.Write("next", next, harness.AgentRequest("m1"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(status.Code(open(t, rawClient(t, h, files)))).To(Equal(codes.Unavailable))

	both := append(append([]byte{}, h.pki.CA.CertPEM...), next.CertPEM...)
	g.Expect(os.WriteFile(h.pki.CAFile(), both, 0o644)).To(Succeed())
	g.Expect(open(t, rawClient(t, h, files))).To(Succeed())

	// A partly written file has no effect.
	g.Expect(os.WriteFile(h.pki.CAFile(), []byte("-----BEGIN"), 0o644)).To(Succeed())
	g.Expect(open(t, rawClientTrusting(t, h, files, both))).To(Succeed())
}
