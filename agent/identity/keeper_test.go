package identity

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// member is a cluster with an agent's identity, whose process can die.
type member struct {
	t       *testing.T
	hub     *testHub
	api     client.WithWatch
	events  *events.FakeRecorder
	now     reading
	options Options
	// write is called before every write to the API server.
	write func() error
}

func newMember(t *testing.T, h *testHub) *member {
	m := &member{
		t: t, hub: h, events: events.NewFakeRecorder(100), write: func() error { return nil },
		now:     reading{wall: time.Now(), boot: 1000 * time.Hour, random: 0.5},
		options: Options{Namespace: "vdi-system", Member: "eu", HubAddress: h.address, HubServerName: "localhost"},
	}
	m.api = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := m.write(); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := m.write(); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
	}).Build()
	m.join(goodToken, h.ca.hash())
	return m
}

// join stores a token as install-agent does.
func (m *member) join(token string, pins ...string) {
	m.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: v1alpha1.AgentBootstrap}}
	if err := client.IgnoreNotFound(m.api.Delete(m.t.Context(), secret)); err != nil {
		m.t.Fatal(err)
	}
	secret.ResourceVersion = ""
	secret.Data = map[string][]byte{
		v1alpha1.BootstrapToken:  []byte(token + "\n"),
		v1alpha1.BootstrapCAHash: []byte(strings.Join(pins, ",")),
	}
	if err := m.api.Create(m.t.Context(), secret); err != nil {
		m.t.Fatal(err)
	}
}

func (m *member) secret(name string) map[string][]byte {
	m.t.Helper()
	secret := &corev1.Secret{}
	err := m.api.Get(m.t.Context(), types.NamespacedName{Namespace: "vdi-system", Name: name}, secret)
	if client.IgnoreNotFound(err) != nil {
		m.t.Fatal(err)
	}
	return secret.Data
}

// start is a new process of the agent.
func (m *member) start() *Keeper {
	k := NewKeeper(m.options, Member{
		Reader: m.api, Client: m.api, Recorder: m.events,
		Fingerprint: func(context.Context) (string, error) { return "kube-system's", nil },
	})
	k.readClocks = func() reading { return m.now }
	return k
}

func (m *member) pass(d time.Duration) {
	m.now.wall, m.now.boot = m.now.wall.Add(d), m.now.boot+d
}

// connect is what the link does.
func connect(k *Keeper) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := k.Current(ctx)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(k.options.HubAddress, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: k.options.HubServerName, RootCAs: c.Roots,
		Certificates: []tls.Certificate{c.Certificate},
	})))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err = fleetv1.NewFleetServiceClient(conn).RenewLease(ctx, &fleetv1.RenewLeaseRequest{}); err != nil {
		k.Ended(c, err)
		return err
	}
	k.Used(c)
	return nil
}

// drop ends the connection as a network does.
func drop(k *Keeper) {
	k.Ended(k.connected, status.Error(codes.Unavailable, "connection reset"))
}

func TestAnAgentJoinsAndItsTokenIsGone(t *testing.T) {
	g := NewWithT(t)
	m := newMember(t, startHub(t))
	k := m.start()
	g.Expect(connect(k)).To(Succeed())
	k.step(t.Context())
	g.Expect(m.secret(v1alpha1.AgentBootstrap)).NotTo(HaveKey(v1alpha1.BootstrapToken))
	stored := m.secret(SecretName)
	g.Expect(stored).To(HaveKey("current.key"))
	g.Expect(stored).NotTo(HaveKey("next.key"))
	g.Expect(stored).NotTo(HaveKey("pending.key"))
	for key, value := range stored {
		g.Expect(string(value)).NotTo(ContainSubstring(goodToken), key)
	}
	g.Expect(k.connected.TrustBundleHash).To(Equal(v1alpha1.TrustBundleHash(m.hub.ca.pem())))

	drop(k)
	g.Expect(connect(m.start())).To(Succeed(), "another process needs no token")
}

func TestATokenIsNotSentToAHubOfAnotherCA(t *testing.T) {
	g := NewWithT(t)
	h := startHub(t)
	h.fault = func(call string, _ bool) error { return fmt.Errorf("%s was called", call) }
	m := newMember(t, h)
	for name, pins := range map[string][]string{
		"another CA": {newAuthority(t).hash()}, "no hash": nil, "a hash without its kind": {strings.TrimPrefix(h.ca.hash(), "sha256:")},
	} {
		m.join(goodToken, pins...)
		err := connect(m.start())
		g.Expect(err).To(MatchError(ContainSubstring("kubectl vdi join eu")), name)
		g.Expect(err).NotTo(MatchError(ContainSubstring("was called")), name)
	}
	m.join(goodToken, h.ca.hash())
	m.options.HubServerName = "elsewhere.example.com"
	g.Expect(connect(m.start())).To(MatchError(ContainSubstring("elsewhere.example.com")), "the name counts too")

	h.set(func() { h.fault = func(string, bool) error { return nil } })
	m.options.HubServerName = "localhost"
	m.join(goodToken, newAuthority(t).hash(), h.ca.hash())
	g.Expect(connect(m.start())).To(Succeed(), "one hash of several is enough")
}

func TestAPinnedCAMustHaveSignedTheHubsCertificate(t *testing.T) {
	g := NewWithT(t)
	h, other := startHub(t), newAuthority(t)
	conn, err := tls.Dial("tcp", h.address, &tls.Config{InsecureSkipVerify: true})
	g.Expect(err).NotTo(HaveOccurred())
	chain := conn.ConnectionState().PeerCertificates
	g.Expect(conn.Close()).To(Succeed())
	g.Expect(verifyPinned(chain, []string{h.ca.hash()}, "localhost")).To(Succeed())
	g.Expect(verifyPinned(append(chain, other.cert), []string{other.hash()}, "localhost")).NotTo(Succeed(),
		"a CA that is merely shown")
	g.Expect(verifyPinned(chain, []string{v1alpha1.CertificateHash(chain[0].Raw)}, "localhost")).NotTo(Succeed(),
		"the leaf is no CA")
}

func TestALostAnswerIsRequestedAgainWithTheSameKey(t *testing.T) {
	for _, call := range []string{"Enroll", "Rotate"} {
		t.Run(call, func(t *testing.T) {
			g := NewWithT(t)
			m := newMember(t, startHub(t))
			losses := 3
			m.hub.fault = func(c string, done bool) error {
				if c == call && done && losses > 0 {
					losses--
					return status.Error(codes.Unavailable, "the answer is lost")
				}
				return nil
			}
			k := m.start()
			for range 4 {
				if err := connect(k); err != nil {
					k = m.start() // which makes no difference
				}
			}
			k.step(t.Context())
			for range 4 {
				m.pass(lifetime * 8 / 10)
				k.step(t.Context())
			}
			g.Expect(losses).To(BeZero())
			g.Expect(connect(k)).To(Succeed())
			keys := map[string]bool{}
			for _, hash := range m.hub.keys {
				keys[hash] = true
			}
			g.Expect(m.hub.last).To(BeEquivalentTo(105), "three answers were lost, two were not")
			g.Expect(keys).To(HaveLen(2), "one key for joining, one for the rotation")
		})
	}
}

func TestTheOldCertificateIsKeptUntilTheNewOneWasUsed(t *testing.T) {
	g := NewWithT(t)
	m := newMember(t, startHub(t))
	k := m.start()
	g.Expect(connect(k)).To(Succeed())
	k.step(t.Context())
	first, replaced := k.state.current, k.connected.Replaced
	m.pass(lifetime / 100)
	k.RotateNow()
	k.step(t.Context())
	g.Expect(replaced).To(BeClosed(), "the link is signaled to connect again")
	g.Expect(k.state.current).To(Equal(first))
	g.Expect(k.state.next).NotTo(BeNil())

	// The hub is restored from a snapshot without the new certificate.
	m.hub.set(func() { m.hub.next = "" })
	k = m.start()
	g.Expect(connect(k)).NotTo(Succeed(), "the new one is tried first")
	g.Expect(connect(k)).To(Succeed(), "the old one is used then")
	g.Expect(m.secret(SecretName)).To(HaveKey("next.key"))
	k.step(t.Context())
	g.Expect(m.secret(SecretName)).NotTo(HaveKey("next.key"))
	g.Expect(k.state.current.serial()).To(Equal(first.serial()))
	m.pass(lifetime / 100)
	k.step(t.Context())
	g.Expect(k.state.next).NotTo(BeNil(), "and another one is requested after a delay")
	g.Expect(connect(k)).To(Succeed())
	k.step(t.Context())
	g.Expect(k.state.current.serial()).NotTo(Equal(first.serial()))
	g.Expect(k.state.next).To(BeNil())
}

func TestARefusedAgentReportsTheRemedyAndUsesANewToken(t *testing.T) {
	g := NewWithT(t)
	m := newMember(t, startHub(t))
	k := m.start()
	g.Expect(connect(k)).To(Succeed())
	k.step(t.Context())
	<-m.events.Events // Joined
	m.hub.set(func() { m.hub.revoked = true })
	for range 5 {
		g.Expect(connect(k)).NotTo(Succeed(), "it keeps trying")
	}
	g.Expect(m.events.Events).To(HaveLen(1), "and reports it once")
	g.Expect(<-m.events.Events).To(ContainSubstring("kubectl vdi join eu"))

	m.hub.set(func() { m.hub.revoked, m.hub.serial, m.hub.next = false, "", "" })
	g.Expect(connect(k)).NotTo(Succeed(), "allowed again, a token is needed")
	m.join("tokenbad.abcdefghijklmnopqrstuvwxyz234567abcdefgh", m.hub.ca.hash())
	g.Expect(connect(k)).NotTo(Succeed())
	m.join(nextToken, m.hub.ca.hash())
	g.Expect(connect(k)).To(Succeed(), "the running agent takes it up")
}

func TestATokenFromFilesIsUsedOnce(t *testing.T) {
	g := NewWithT(t)
	m := newMember(t, startHub(t))
	m.join("")
	m.options.TokenFile, m.options.CAHashes = t.TempDir()+"/token", []string{m.hub.ca.hash()}
	g.Expect(connect(m.start())).To(MatchError(errNotJoined), "the file is not there yet")
	writeFile(t, m.options.TokenFile, goodToken)
	k := m.start()
	g.Expect(connect(k)).To(Succeed())
	drop(k)
	m.hub.set(func() { delete(m.hub.usedBy, goodToken) })
	g.Expect(connect(m.start())).To(Succeed(), "it is not sent again")
}
