package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

const (
	goodToken = "tokenone.abcdefghijklmnopqrstuvwxyz234567abcdefgh"
	nextToken = "tokentwo.abcdefghijklmnopqrstuvwxyz234567abcdefgh"
	lifetime  = 24 * time.Hour
)

type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key, cert}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) hash() string { return v1alpha1.CertificateHash(a.cert.Raw) }

func (a *authority) issue(serial int64, public any, usage x509.ExtKeyUsage) ([]byte, error) {
	return x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), ExtKeyUsage: []x509.ExtKeyUsage{usage}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lifetime),
	}, a.cert, public, a.key)
}

// testHub issues certificates as the hub does: a token is bound to the first
// key, and a certificate is valid until the next one was used. It listens on
// real TLS.
type testHub struct {
	fleetv1.UnimplementedFleetServiceServer
	address string
	ca      *authority

	mu sync.Mutex
	// fault is called before and after each call, and may fail it.
	fault func(call string, done bool) error
	// usedBy is the key that each token was used for; empty for one unused.
	usedBy map[string]string
	// serial was used last, next was issued since.
	serial, next string
	keys         map[string]string
	last         int64
	revoked      bool
	// rotate is the answer to every renewal, bundles has the hashes of renewals, connections
	// the numbers of admitted and refused streams.
	rotate            bool
	bundles           map[string]bool
	letIn, turnedAway int
}

func startHub(t testing.TB) *testHub {
	t.Helper()
	h := &testHub{
		ca: newAuthority(t), usedBy: map[string]string{goodToken: "", nextToken: ""}, last: 100,
		keys: map[string]string{}, bundles: map[string]bool{}, fault: func(string, bool) error { return nil },
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := h.ca.issue(2, key.Public(), x509.ExtKeyUsageServerAuth)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(h.ca.cert)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf, h.ca.cert.Raw}, PrivateKey: key}},
	})))
	fleetv1.RegisterFleetServiceServer(server, h)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.address = listener.Addr().String()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return h
}

func keyHash(request []byte) (string, any, error) {
	csr, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:]), csr.PublicKey, csr.CheckSignature()
}

// grant issues for a request; the hub's lock is held.
func (h *testHub) grant(request []byte) (*fleetv1.IssuedCertificate, error) {
	hash, public, err := keyHash(request)
	if err != nil {
		return nil, err
	}
	h.last++
	der, err := h.ca.issue(h.last, public, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	h.next = big.NewInt(h.last).Text(16)
	h.keys[h.next] = hash
	return &fleetv1.IssuedCertificate{
		Chain:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		TrustBundle: h.ca.pem(), Lifetime: durationpb.New(lifetime),
	}, nil
}

func (h *testHub) Enroll(_ context.Context, request *fleetv1.EnrollRequest) (*fleetv1.EnrollResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fault("Enroll", false); err != nil {
		return nil, err
	}
	hash, _, err := keyHash(request.GetCertificateRequest())
	if err != nil {
		return nil, err
	}
	by, ok := h.usedBy[request.GetToken()]
	if !ok || by != "" && by != hash {
		return nil, status.Error(codes.PermissionDenied, "the token is not valid")
	}
	h.usedBy[request.GetToken()] = hash
	h.serial = ""
	issued, err := h.grant(request.GetCertificateRequest())
	if err != nil {
		return nil, err
	}
	return &fleetv1.EnrollResponse{Certificate: issued}, h.fault("Enroll", true)
}

// serialOf the caller, if it may call.
func (h *testHub) serialOf(ctx context.Context) (string, error) {
	p, _ := peer.FromContext(ctx)
	certs := p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates
	if len(certs) == 0 {
		return "", status.Error(codes.Unauthenticated, "no certificate")
	}
	serial := certs[0].SerialNumber.Text(16)
	if h.revoked {
		return "", status.Error(codes.PermissionDenied, "the member's access is revoked")
	}
	if !slices.Contains([]string{h.serial, h.next}, serial) {
		return "", status.Error(codes.Unauthenticated, "the certificate is no longer valid")
	}
	return serial, nil
}

func (h *testHub) RotateCertificate(ctx context.Context, request *fleetv1.RotateCertificateRequest) (*fleetv1.RotateCertificateResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fault("Rotate", false); err != nil {
		return nil, err
	}
	serial, err := h.serialOf(ctx)
	if err != nil {
		return nil, err
	}
	if hash, _, err := keyHash(request.GetCertificateRequest()); err != nil || hash == h.keys[serial] {
		return nil, status.Error(codes.InvalidArgument, "the key is not new")
	}
	issued, err := h.grant(request.GetCertificateRequest())
	if err != nil {
		return nil, err
	}
	return &fleetv1.RotateCertificateResponse{Certificate: issued}, h.fault("Rotate", true)
}

// RenewLease admits the caller, in tests without a link.
func (h *testHub) RenewLease(ctx context.Context, request *fleetv1.RenewLeaseRequest) (*fleetv1.RenewLeaseResponse, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fault("Connect", false); err != nil {
		return nil, err
	}
	h.bundles[request.GetTrustBundleHash()] = true
	return &fleetv1.RenewLeaseResponse{HubTerm: 1, RotateCertificate: h.rotate}, errors.Join(h.use(ctx), h.fault("Connect", true))
}

// use admits the caller, which makes the certificate before invalid; the hub's
// lock is held.
func (h *testHub) use(ctx context.Context) error {
	serial, err := h.serialOf(ctx)
	if err == nil && serial == h.next {
		h.serial, h.next, h.rotate = serial, "", false
	}
	return err
}

// Connect welcomes the agent and sends nothing more.
func (h *testHub) Connect(stream grpc.BidiStreamingServer[fleetv1.ConnectRequest, fleetv1.ConnectResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	var err error
	h.set(func() {
		if err = h.use(stream.Context()); err != nil {
			h.turnedAway++
			return
		}
		h.letIn++
	})
	if err != nil {
		return err
	}
	welcome := &fleetv1.Welcome{Protocol: 1, HubTerm: 1, RenewInterval: durationpb.New(50 * time.Millisecond)}
	err = stream.Send(&fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_Welcome{Welcome: welcome}})
	if err == nil {
		<-stream.Context().Done()
	}
	return err
}

func (h *testHub) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}
