package hub

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

const joinToken = "abc123.0123456789abcdef0123456789abcdef"

// runHub runs a hub that is its own certificate authority until the test ends, and returns
// the address on which it listens.
func runHub(t *testing.T, cfg *rest.Config) (address string) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = free.Addr().String()
	_ = free.Close()
	var o Options
	flags := pflag.NewFlagSet("hub", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse([]string{
		"--leader-elect=false", "--all-namespaces", "--link-bind-address=" + address,
		"--metrics-bind-address=0", "--health-probe-bind-address=0",
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return address
}

// dial connects to the hub, with a certificate if there is one. It verifies the hub by the
// hash of its CA.
func dial(t *testing.T, address, caHash string, certificates ...tls.Certificate) fleetv1.FleetServiceClient {
	t.Helper()
	config := &tls.Config{
		Certificates:       certificates,
		InsecureSkipVerify: true, // an agent that joins only has the hash
		VerifyConnection: func(state tls.ConnectionState) error {
			chain := state.PeerCertificates
			if len(chain) != 2 || v1alpha1.CertificateHash(chain[1].Raw) != caHash {
				return errors.New("the hub's CA is not in its chain")
			}
			roots := x509.NewCertPool()
			roots.AddCert(chain[1])
			_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost"})
			return err
		},
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return fleetv1.NewFleetServiceClient(conn)
}

func keyAndRequest(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return key, request
}

func pair(t *testing.T, key *ecdsa.PrivateKey, issued *fleetv1.IssuedCertificate) tls.Certificate {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	out, err := tls.X509KeyPair(issued.GetChain(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func code(err error) codes.Code { return status.Code(err) }

func TestAMemberJoinsRotatesAndIsRevoked(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	plane, err := harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Name: "hub", APIOnly: true, CRDDirs: []string{"../deploy/charts/vdi-hub/files/crds"},
		Namespaces: map[string]map[string]string{"vdi-system": nil},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := client.New(plane.Config, client.Options{Scheme: Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	address := runHub(t, plane.Config)

	authority := &corev1.Secret{}
	g.Eventually(func() error {
		return admin.Get(ctx, client.ObjectKey{Namespace: "vdi-system", Name: v1alpha1.AuthoritySecret}, authority)
	}).WithTimeout(30 * time.Second).Should(Succeed())
	block, _ := pem.Decode(authority.Data[v1alpha1.AuthorityCertificate])
	caHash := v1alpha1.CertificateHash(block.Bytes)
	mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "eu"}}
	mc.Spec.Region, mc.Spec.IngressDomain = "eu", "eu.example.com"
	g.Expect(admin.Create(ctx, mc)).To(Succeed())
	g.Expect(admin.Create(ctx, tokenSecret(mc))).To(Succeed())

	key, request := keyAndRequest(t)
	unauthenticated := dial(t, address, caHash)
	_, err = unauthenticated.RotateCertificate(ctx, &fleetv1.RotateCertificateRequest{CertificateRequest: request}, grpc.WaitForReady(true))
	g.Expect(code(err)).To(Equal(codes.Unauthenticated), fmt.Sprint(err))
	enrolled, err := unauthenticated.Enroll(ctx, &fleetv1.EnrollRequest{Token: joinToken, CertificateRequest: request, Fingerprint: "f"})
	g.Expect(err).NotTo(HaveOccurred())
	_, other := keyAndRequest(t)
	_, err = unauthenticated.Enroll(ctx, &fleetv1.EnrollRequest{Token: joinToken, CertificateRequest: other, Fingerprint: "f"})
	g.Expect(code(err)).To(Equal(codes.PermissionDenied), fmt.Sprint(err))
	g.Expect(err.Error()).NotTo(ContainSubstring("join-abc123"), "why is for the hub's log")

	// This works at once, even if the hub's cache does not have the certificate yet.
	member := dial(t, address, caHash, pair(t, key, enrolled.GetCertificate()))
	_, err = member.RotateCertificate(ctx, &fleetv1.RotateCertificateRequest{CertificateRequest: request})
	g.Expect(code(err)).To(Equal(codes.InvalidArgument), fmt.Sprint(err))
	nextKey, nextRequest := keyAndRequest(t)
	rotated, err := member.RotateCertificate(ctx, &fleetv1.RotateCertificateRequest{CertificateRequest: nextRequest})
	g.Expect(err).NotTo(HaveOccurred())

	next := dial(t, address, caHash, pair(t, nextKey, rotated.GetCertificate()))
	_, err = next.RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "i"})
	g.Expect(code(err)).To(Equal(codes.FailedPrecondition), "admitted, and not connected: %v", err)

	revocation := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"access":"Revoked"}}`))
	g.Expect(admin.Patch(ctx, mc, revocation)).To(Succeed())
	g.Eventually(func() codes.Code {
		_, err := next.RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "i"})
		return code(err)
	}).WithTimeout(10 * time.Second).Should(Equal(codes.PermissionDenied))
	g.Eventually(func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(mc), mc)).To(Succeed())
		g.Expect(mc.Status.Certificate).NotTo(BeNil())
		g.Expect(mc.Status.Certificate.Serials()).To(BeEmpty())
	}).WithTimeout(10 * time.Second).Should(Succeed())
}

func tokenSecret(mc *v1alpha1.MemberCluster) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: v1alpha1.JoinTokenPrefix + "abc123"},
		Type:       v1alpha1.JoinTokenType,
		StringData: map[string]string{
			v1alpha1.JoinTokenMember:    mc.Name,
			v1alpha1.JoinTokenMemberUID: string(mc.UID),
			v1alpha1.JoinTokenHash:      v1alpha1.JoinTokenSum(joinToken),
			v1alpha1.JoinTokenExpires:   time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		},
	}
}
