package link_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/pki"
)

// world is a hub that serves on a loopback port, with a clock, a directory and
// an authority that the test moves.
type world struct {
	t       *testing.T
	pki     *harness.LinkPKI
	otherCA *pki.CA
	address string

	mu        sync.Mutex
	ahead     time.Duration
	following bool
	standing  map[types.UID]link.Access
	opened    []types.UID
	used      []string
	usedErr   error
	enrolled  int
	enrollErr error
	peers     map[types.UID]link.Peer
	duties    []string
	refused   map[types.UID]error
}

func serve(t *testing.T, change func(*link.Options)) *world {
	t.Helper()
	certificates, err := harness.NewLinkPKI(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	files, err := certificates.Hub()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, pki: certificates, standing: map[types.UID]link.Access{"own": {}}, peers: map[types.UID]link.Peer{}, refused: map[types.UID]error{}}
	if w.otherCA, err = pki.NewCA("other"); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = listener.Addr().String()
	options := link.Options{
		CertFile: files.CertFile, KeyFile: files.KeyFile, ClientCAFile: certificates.CAFile(),
		TrustDomain: harness.TrustDomain, Term: link.Term{Current: func() int64 { return 1 }}, Timeouts: link.Timeouts{Drain: time.Second},
		ReauthorizeInterval: 20 * time.Millisecond, Now: w.now, Leading: w.leading,
	}
	options.Authority = &authority{world: w, files: files}
	if change != nil {
		change(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- link.NewServer(options, w).Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended: %v", err)
		}
	})
	return w
}

func (w *world) do(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

func (w *world) leading() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.following
}

// Access, Open, Refused and Renew are link.Directory's.
func (w *world) Access(uid types.UID) (link.Access, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.standing[uid]
	return s, ok
}

func (w *world) Open(_ context.Context, uid types.UID, _ *fleetv1.Hello, peer link.Peer) (link.Member, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened = append(w.opened, uid)
	w.peers[uid] = peer
	w.duties = append(w.duties, "open")
	return &discarding{peer: peer}, nil
}

func (w *world) Refused(uid types.UID, reason error) {
	w.do(func() { w.refused[uid] = reason })
}

func (w *world) Renew(types.UID, link.Renewal) (time.Duration, error) {
	return time.Minute, nil
}

// discarding is a member whose reports are discarded.
type discarding struct {
	link.Member
	peer link.Peer
}

// CapacitySequence sends templates meanwhile, as the Directory does under the lock that it needs: the
// connection must not be locked.
func (d *discarding) CapacitySequence() uint64 {
	d.peer.SetTemplates(nil) // no message, which other tests would see
	return 0
}

func (*discarding) Screen(*fleetv1.Inventory) error             { return nil }
func (*discarding) Differing(*convert.Digest) convert.BucketSet { return convert.AllBuckets() }
func (*discarding) Part(convert.BucketSet, []protocol.Report)   {}
func (*discarding) Changes([]protocol.Report)                   {}
func (*discarding) Results([]protocol.Result)                   {}
func (*discarding) Capacity(*fleetv1.CapacityReport)            {}
func (*discarding) Closed(error)                                {}
func (*discarding) Sums() protocol.Sums                         { return protocol.Sums{} }
func (*discarding) Agreed(protocol.Agreement)                   {}

// authority issues nothing of worth, and serves with the harness's files.
type authority struct {
	*world
	files harness.LinkFiles
}

func (a *authority) Enroll(_ context.Context, request *fleetv1.EnrollRequest) (*fleetv1.IssuedCertificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.enrolled++
	if a.enrollErr != nil {
		return nil, a.enrollErr
	}
	if request.GetToken() != "good" {
		return nil, link.ErrToken
	}
	return &fleetv1.IssuedCertificate{}, nil
}

func (a *authority) Rotate(context.Context, link.Caller, []byte) (*fleetv1.IssuedCertificate, error) {
	return &fleetv1.IssuedCertificate{}, nil
}

func (a *authority) Used(_ context.Context, caller link.Caller) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = append(a.used, caller.Serial)
	a.duties = append(a.duties, "used")
	return a.usedErr
}

func (a *authority) RotationDue(_ link.Caller, hash string) bool { return hash == "old" }

func (a *authority) Certificates() (*tls.Certificate, *x509.CertPool, error) {
	cert, err := tls.LoadX509KeyPair(a.files.CertFile, a.files.KeyFile)
	if err != nil {
		return nil, nil, err
	}
	pool := x509.NewCertPool()
	text, err := os.ReadFile(a.pki.CAFile())
	if err != nil || !pool.AppendCertsFromPEM(text) {
		return nil, nil, errors.Join(errors.New("no authority"), err)
	}
	return &cert, pool, nil
}

// certificate of an agent, issued by an authority.
func (w *world) certificate(ca *pki.CA, request pki.CertRequest) *tls.Certificate {
	w.t.Helper()
	files, err := w.pki.Write(strings.ReplaceAll(w.t.Name(), "/", "-"), ca, request)
	if err != nil {
		w.t.Fatal(err)
	}
	cert, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
	if err != nil {
		w.t.Fatal(err)
	}
	return &cert
}

func (w *world) agent(uid string) *tls.Certificate {
	return w.certificate(w.pki.CA, harness.AgentRequest(uid))
}

func serial(cert *tls.Certificate) string {
	return cert.Leaf.SerialNumber.Text(16)
}

func (w *world) tls(cert *tls.Certificate) *tls.Config {
	w.t.Helper()
	ca, err := os.ReadFile(w.pki.CAFile())
	if err != nil {
		w.t.Fatal(err)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: "localhost", RootCAs: x509.NewCertPool(), NextProtos: []string{"h2"}}
	config.RootCAs.AppendCertsFromPEM(ca)
	if cert != nil {
		// The answer is the same for every request of the server.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
	}
	return config
}

func (w *world) client(cert *tls.Certificate, options ...grpc.DialOption) fleetv1.FleetServiceClient {
	w.t.Helper()
	options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(w.tls(cert))))
	conn, err := grpc.NewClient(w.address, options...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	return fleetv1.NewFleetServiceClient(conn)
}

func hello() *fleetv1.ConnectRequest {
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Hello{Hello: &fleetv1.Hello{
		MinProtocol: 1, MaxProtocol: 1, Instance: "i", Fingerprint: "f", AgentTerm: 1}}}
}

// connect opens a stream and waits for its welcome.
func connect(ctx context.Context, client fleetv1.FleetServiceClient, options ...grpc.CallOption) (fleetv1.FleetService_ConnectClient, error) {
	stream, err := client.Connect(ctx, options...)
	if err != nil {
		return nil, err
	}
	if err := stream.Send(hello()); err != nil {
		// The reason is in the error of Recv.
		_, err := stream.Recv()
		return nil, err
	}
	_, err = stream.Recv()
	return stream, err
}

func calls(ctx context.Context, client fleetv1.FleetServiceClient) map[string]func() error {
	return map[string]func() error{
		"Connect": func() error {
			_, err := connect(ctx, client)
			return err
		},
		"RenewLease": func() error {
			_, err := client.RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "i"})
			return err
		},
		"RotateCertificate": func() error {
			_, err := client.RotateCertificate(ctx, &fleetv1.RotateCertificateRequest{CertificateRequest: []byte("r")})
			return err
		},
		"Enroll": func() error {
			_, err := client.Enroll(ctx, &fleetv1.EnrollRequest{Token: "good", CertificateRequest: []byte("r")})
			return err
		},
	}
}

func patient(t *testing.T) *WithT {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	g.SetDefaultEventuallyPollingInterval(5 * time.Millisecond)
	return g
}

func (w *world) has(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.opened, uid)
}
