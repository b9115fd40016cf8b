package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

const (
	namespace   = "vdi-system"
	trustDomain = "fleet.example"
	lifetime    = 24 * time.Hour
	tokenID     = "abc123"
	token       = tokenID + ".0123456789abcdef0123456789abcdef"
	fingerprint = "kube-system-uid"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is an authority over an API server in memory.
type fixture struct {
	*GomegaWithT
	*Authority
	ctx    context.Context
	api    client.WithWatch
	events *events.FakeRecorder
	tokens int

	mu      sync.Mutex
	now     time.Time
	changed []string
}

// newFixture has an authority that has made its CA, and the objects. The funcs
// come between the authority and the API server; x.api is behind them.
func newFixture(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *fixture {
	t.Helper()
	x := unprepared(t, funcs, objects...)
	x.Expect(x.Prepare(x.ctx)).To(Succeed())
	return x
}

func unprepared(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	x := &fixture{GomegaWithT: NewWithT(t), ctx: t.Context(), events: events.NewFakeRecorder(100), now: start}
	x.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	x.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	x.api = fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.MemberCluster{}).
		WithIndex(&corev1.Secret{}, "type", func(o client.Object) []string { return []string{string(o.(*corev1.Secret).Type)} }).
		WithObjects(objects...).Build()
	through := interceptor.NewClient(x.api, funcs)
	x.Authority = New(Options{
		Client: through, Live: through, Recorder: x.events,
		Namespace: namespace, TrustDomain: trustDomain, Names: []string{"hub.example", "127.0.0.1"},
		Lifetime: lifetime, Interval: time.Second, Now: x.time, Name: x.nameOf,
		Changed: func(mc *v1alpha1.MemberCluster) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.changed = append(x.changed, mc.Name)
		},
	})
	return x
}

func (x *fixture) nameOf(uid types.UID) (string, bool) {
	list := &v1alpha1.MemberClusterList{}
	x.Expect(x.api.List(x.ctx, list)).To(Succeed())
	for i := range list.Items {
		if list.Items[i].UID == uid {
			return list.Items[i].Name, true
		}
	}
	return "", false
}

func (x *fixture) time() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.now
}

func (x *fixture) step(d time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now = x.now.Add(d)
}

func newMember(name string, change ...func(*v1alpha1.MemberCluster)) *v1alpha1.MemberCluster {
	mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	mc.Spec.Region, mc.Spec.IngressDomain, mc.Spec.Access = name, name+".example.com", v1alpha1.AccessAllowed
	for _, f := range change {
		f(mc)
	}
	return mc
}

// tokenFor is the Secret of a token for a member.
func tokenFor(member, token string, change ...func(*corev1.Secret)) *corev1.Secret {
	id, _, _ := strings.Cut(token, ".")
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: v1alpha1.JoinTokenPrefix + id, UID: types.UID("uid-" + id), CreationTimestamp: metav1.Time{Time: start},
		},
		Type: v1alpha1.JoinTokenType,
		Data: map[string][]byte{
			v1alpha1.JoinTokenMember:    []byte(member),
			v1alpha1.JoinTokenMemberUID: []byte("uid-" + member),
			v1alpha1.JoinTokenHash:      []byte(v1alpha1.JoinTokenSum(token)),
			v1alpha1.JoinTokenExpires:   []byte(start.Add(30 * time.Minute).Format(time.RFC3339)),
		},
	}
	for _, f := range change {
		f(secret)
	}
	return secret
}

func (x *fixture) member(name string) *v1alpha1.MemberCluster {
	mc := &v1alpha1.MemberCluster{}
	x.Expect(x.api.Get(x.ctx, client.ObjectKey{Name: name}, mc)).To(Succeed())
	return mc
}

func (x *fixture) secret(name string) *corev1.Secret {
	secret := &corev1.Secret{}
	x.Expect(x.api.Get(x.ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)).To(Succeed())
	return secret
}

func (x *fixture) tokenUsedBy() string {
	return string(x.secret(v1alpha1.JoinTokenPrefix + tokenID).Data[v1alpha1.JoinTokenUsedBy])
}

// agent is a key and what was issued for it.
type agent struct {
	key    *ecdsa.PrivateKey
	token  string
	caller link.Caller
	bundle []byte
}

func newAgent(t testing.TB) *agent {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &agent{key: key}
}

func (a *agent) request() []byte {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"vdi-hub"}}, a.key)
	if err != nil {
		panic(err) // a key that can't sign
	}
	return der
}

func (a *agent) enrollment(token string) *fleetv1.EnrollRequest {
	return &fleetv1.EnrollRequest{Token: token, CertificateRequest: a.request(), Fingerprint: fingerprint}
}

// noFuncs intercepts nothing.
var noFuncs interceptor.Funcs

// takes what was issued, and verifies it as the hub would.
func (x *fixture) takes(a *agent, member string, got *fleetv1.IssuedCertificate) {
	x.takesAs(a, types.UID("uid-"+member), got)
}

func (x *fixture) takesAs(a *agent, member types.UID, got *fleetv1.IssuedCertificate) {
	block, rest := pem.Decode(got.GetChain())
	x.Expect(block).NotTo(BeNil())
	x.Expect(rest).To(BeEmpty())
	cert, err := x509.ParseCertificate(block.Bytes)
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(a.key.PublicKey.Equal(cert.PublicKey)).To(BeTrue())
	_, pool, err := x.Certificates()
	x.Expect(err).NotTo(HaveOccurred())
	chains, err := cert.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: x.time(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(cert.URIs).To(HaveLen(1))
	x.Expect(cert.URIs[0].String()).To(Equal("spiffe://fleet.example/cluster/" + string(member) + "/agent"))
	x.Expect(cert.DNSNames).To(BeEmpty(), "of a request nothing counts but its key")
	x.Expect(got.GetLifetime().AsDuration()).To(Equal(lifetime))
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	a.bundle = got.GetTrustBundle()
	a.caller = link.Caller{
		Member: member, Serial: cert.SerialNumber.Text(16), NotAfter: cert.NotAfter,
		PublicKeyHash: hex.EncodeToString(sum[:]), IssuerHash: v1alpha1.CertificateHash(chains[0][1].Raw),
	}
}

// enrolled is a member's agent that has connected.
func (x *fixture) enrolled(t testing.TB, member string) *agent {
	t.Helper()
	x.tokens++
	tokenOf := fmt.Sprintf("%s%05d.0123456789abcdef0123456789abcdef", member, x.tokens)
	x.Expect(x.api.Create(x.ctx, tokenFor(member, tokenOf, func(s *corev1.Secret) {
		s.CreationTimestamp.Time = x.time()
		s.Data[v1alpha1.JoinTokenExpires] = []byte(x.time().Add(time.Hour).Format(time.RFC3339))
	}))).To(Succeed())
	a := newAgent(t)
	a.token = tokenOf
	got, err := x.Enroll(x.ctx, a.enrollment(tokenOf))
	x.Expect(err).NotTo(HaveOccurred())
	x.takes(a, member, got)
	x.Expect(x.Used(x.ctx, a.caller)).To(Succeed())
	return a
}

// rotated is the member's agent with its next certificate, not used yet.
func (x *fixture) rotated(t testing.TB, member string, a *agent) *agent {
	t.Helper()
	next := newAgent(t)
	got, err := x.Rotate(x.ctx, a.caller, next.request())
	x.Expect(err).NotTo(HaveOccurred())
	x.takes(next, member, got)
	return next
}
