package protocol

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	agentlink "github.com/vdi-fleet/vdi-fleet/agent/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// agentProcess is the production client with an in-memory member.
type agentProcess struct {
	mu     sync.Mutex
	member *member
	client *agentlink.Client
	terms  []int64
	begun  int64
	stop   func()
}

// startAgent connects an agent with these files and the link's timings scaled
// to a hundredth.
func startAgent(t *testing.T, h *hubServer, files harness.LinkFiles, instance string) *agentProcess {
	t.Helper()
	return startAgentFor(t, h, files, instance, "localhost")
}

// startAgentFor starts an agent that requires a name in the hub's certificate.
func startAgentFor(t *testing.T, h *hubServer, files harness.LinkFiles, instance, name string) *agentProcess {
	t.Helper()
	return startTunedAgent(t, h, files, instance, name, nil, nil, newMember())
}

// startTunedAgent starts an agent of an existing member.
func startTunedAgent(t *testing.T, h *hubServer, files harness.LinkFiles, instance, name string, capabilities, required []string, m *member) *agentProcess {
	t.Helper()
	p := &agentProcess{member: m}
	p.client = agentlink.NewClient(agentlink.Options{
		HubAddress: h.address, HubServerName: name, Credentials: certificates(files),
		Instance: instance, TimeFactor: 0.01, Leading: func() bool { return true },
		Capabilities: capabilities, RequiredCapabilities: required,
	}, p.asMember())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.client.Start(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent ended: %v", err)
		}
	})
	t.Cleanup(p.stop)
	return p
}

func certificates(files harness.LinkFiles) agentlink.Files {
	return agentlink.Files{CertFile: files.CertFile, KeyFile: files.KeyFile, HubCAFile: files.CAFile}
}

func (p *agentProcess) asMember() agentlink.Member {
	return agentlink.Member{
		Assignments: p, Orders: p, Capacity: p, Terms: p, Lease: p,
		Fingerprint: func(context.Context) (string, error) { return "f", nil },
		Synced:      func(context.Context) bool { return true },
	}
}

func (p *agentProcess) Sending() func(time.Duration) { return func(time.Duration) {} }

func (p *agentProcess) List(context.Context) ([]agentlink.InventoryItem, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.member.listed(), nil
}

func (p *agentProcess) Render(r agentlink.Ref) *fleetv1.AssignmentReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.member.render(r)
}

// Put stores at once, as with an API server that responds.
func (p *agentProcess) Put(order *fleetv1.Order) {
	p.mu.Lock()
	p.member.pending = append(p.member.pending, order)
	p.member.work()
	var results []*fleetv1.OrderResult
	for batch := p.member.results.Next(); batch != nil; batch = p.member.results.Next() {
		results = append(results, batch.Items...)
	}
	p.mu.Unlock()
	for _, r := range results {
		p.client.Mark(ref(r.GetSessionUid()))
		p.client.Add(r)
	}
}

// sets changes the status that the member reports of a session.
func (p *agentProcess) sets(uid, state string) {
	p.mu.Lock()
	p.member.held[uid].state = state
	p.mu.Unlock()
	p.client.Mark(ref(uid))
}

func (p *agentProcess) Report() *fleetv1.CapacityReport {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &fleetv1.CapacityReport{Sequence: p.member.capacity, Assignments: int32(len(p.member.held))}
}

func (p *agentProcess) NextSequence() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.member.capacity++
	return p.member.capacity
}

func (p *agentProcess) SetTemplates(*fleetv1.TemplateSet) {}

func (p *agentProcess) Begin(context.Context) (agentTerm int64, highest agentlink.HubTerm, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return 1, agentlink.HubTerm{Term: p.begun}, nil
}

func (p *agentProcess) Observe(_ context.Context, term agentlink.HubTerm) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.terms = append(p.terms, term.Term)
	return nil
}

// rawClient returns a client that sends messages of the protocol without an agent.
func rawClient(t *testing.T, h *hubServer, files harness.LinkFiles) fleetv1.FleetServiceClient {
	t.Helper()
	ca, err := os.ReadFile(h.pki.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	return rawClientTrusting(t, h, files, ca)
}

func rawClientTrusting(t *testing.T, h *hubServer, files harness.LinkFiles, ca []byte) fleetv1.FleetServiceClient {
	t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: "localhost", RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	if files.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		// The same certificate is sent for every request of the server.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	conn, err := grpc.NewClient(h.address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return fleetv1.NewFleetServiceClient(conn)
}

func hello(instance string) *fleetv1.ConnectRequest {
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Hello{Hello: &fleetv1.Hello{
		MinProtocol: 1, MaxProtocol: 1, Instance: instance, Fingerprint: "f", AgentTerm: 1}}}
}

// emptyInventory returns the digest of an empty inventory, all that there is to send.
func emptyInventory() *fleetv1.ConnectRequest {
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_InventoryDigest{InventoryDigest: &fleetv1.InventoryDigest{}}}
}
