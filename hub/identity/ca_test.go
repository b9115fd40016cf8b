package identity

import (
	"context"
	"crypto/x509"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/identity/pki"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

// trusts checks that an agent with that bundle accepts the hub's certificate.
func (x *fixture) trusts(bundle []byte) error { return x.trustsAt(bundle, x.time()) }

// trustsAt is the same for an agent with another clock.
func (x *fixture) trustsAt(bundle []byte, now time.Time) error {
	serving, _, err := x.Certificates()
	x.Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	x.Expect(roots.AppendCertsFromPEM(bundle)).To(BeTrue())
	leaf, err := x509.ParseCertificate(serving.Certificate[0])
	x.Expect(err).NotTo(HaveOccurred())
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: "hub.example"})
	return err
}

func (x *fixture) caSecret() *corev1.Secret { return x.secret(v1alpha1.AuthoritySecret) }

func TestTheFirstLeaderMakesTheCAAndTheNextUsesIt(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{}, newMember("eu"))
	made := x.caSecret()
	x.Expect(made.Data).To(HaveKey(v1alpha1.AuthorityKey))
	x.Expect(x.trusts(made.Data[v1alpha1.AuthorityBundle])).To(Succeed())
	a := x.enrolled(t, "eu")

	next := New(x.options)
	x.Expect(next.Prepare(x.ctx)).To(Succeed())
	x.Expect(next.maintain(x.ctx)).To(Succeed())
	x.Expect(x.caSecret()).To(Equal(made))
	x.Authority = next
	x.Expect(x.trusts(a.bundle)).To(Succeed())
	x.Expect(next.Used(x.ctx, a.caller)).To(Succeed())
	x.Expect(next.RotationDue(a.caller, v1alpha1.TrustBundleHash(a.bundle))).To(BeFalse())
}

func TestTheHubServesWithOneUseAndTheCAInItsChain(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{})
	serving, _, err := x.Certificates()
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(serving.Certificate).To(HaveLen(2), "an agent that has only the CA's hash must see the CA")
	authority, err := x509.ParseCertificate(serving.Certificate[1])
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(v1alpha1.CertificateHash(authority.Raw)).To(Equal(x.ca.current.Load().state.Issuer.Hash()))
	x.Expect(serving.Leaf.URIs).To(HaveLen(1))
	x.Expect(serving.Leaf.URIs[0].String()).To(Equal("spiffe://fleet.example/hub"))
	x.Expect(serving.Leaf.ExtKeyUsage).To(ConsistOf(x509.ExtKeyUsageServerAuth))
}

func TestNothingIsServedBeforeTheCAWasRead(t *testing.T) {
	x := unprepared(t, interceptor.Funcs{}, newMember("eu"), tokenFor("eu", token))
	_, _, err := x.Certificates()
	x.Expect(err).To(MatchError(errNotReady))
	_, err = x.Enroll(x.ctx, newAgent(t).enrollment(token))
	x.Expect(err).To(MatchError(errNotReady))
	x.Expect(x.RotationDue(link.Caller{}, "sha256:0")).To(BeFalse())
}

func TestACAThatCannotBeReadIsNotReplaced(t *testing.T) {
	broken := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.AuthoritySecret},
		Data:       map[string][]byte{v1alpha1.AuthorityCertificate: []byte("precious")},
	}
	x := unprepared(t, interceptor.Funcs{}, broken)
	before := x.caSecret()
	x.Expect(x.Prepare(x.ctx)).To(MatchError(And(ContainSubstring("vdi-system/vdi-hub-ca"), ContainSubstring("restore it from a backup"))))
	x.Expect(x.maintain(x.ctx)).NotTo(Succeed())
	x.Expect(x.caSecret()).To(Equal(before))
}

func TestAnAPIServerThatDoesNotAnswerMakesNoNewCA(t *testing.T) {
	x := unprepared(t, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errLost
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			t.Error("something was created")
			return nil
		},
	})
	x.Expect(x.Prepare(x.ctx)).To(MatchError(errLost))
}

func TestACAThatWasDamagedMeanwhileIsUsedOn(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{}, newMember("eu"))
	a := x.enrolled(t, "eu")
	damaged := x.caSecret()
	good := damaged.DeepCopy()
	delete(damaged.Data, v1alpha1.AuthorityKey)
	x.Expect(x.api.Update(x.ctx, damaged)).To(Succeed())
	x.Expect(x.maintain(x.ctx)).To(MatchError(ContainSubstring("ca.key")))
	x.Expect(x.caSecret().Data).NotTo(HaveKey(v1alpha1.AuthorityKey))
	x.Expect(x.Used(x.ctx, x.rotated(t, "eu", a).caller)).To(Succeed())

	x.Expect(x.api.Delete(x.ctx, damaged)).To(Succeed())
	x.Expect(x.maintain(x.ctx)).To(Succeed())
	x.Expect(x.caSecret().Data).To(Equal(good.Data), "a CA that was deleted is restored as it was")
}

func TestOfTwoLeadersOneMakesTheCA(t *testing.T) {
	var quicker *fixture
	x := unprepared(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			other := New(quicker.options)
			other.options.Client, other.options.Live = quicker.api, quicker.api
			quicker.Expect(other.Prepare(ctx)).To(Succeed())
			return c.Create(ctx, o, options...)
		},
	})
	quicker = x
	x.Expect(x.Prepare(x.ctx)).To(Succeed())
	x.Expect(x.trusts(x.caSecret().Data[v1alpha1.AuthorityBundle])).To(Succeed())
}

func TestTheHubsCertificateIsRenewedAtTwoThirdsOfItsLife(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{})
	serial := func() string {
		serving, _, err := x.Certificates()
		x.Expect(err).NotTo(HaveOccurred())
		return serving.Leaf.SerialNumber.Text(16)
	}
	first, ca := serial(), x.caSecret()
	x.step(pki.ServingLifetime / 2)
	x.Expect(x.maintain(x.ctx)).To(Succeed())
	x.Expect(serial()).To(Equal(first))
	x.step(pki.ServingLifetime / 5)
	x.Expect(x.maintain(x.ctx)).To(Succeed())
	x.Expect(serial()).NotTo(Equal(first))
	x.Expect(x.trusts(ca.Data[v1alpha1.AuthorityBundle])).To(Succeed())
	x.Expect(x.caSecret()).To(Equal(ca))
}

func TestAnAgentWhoseClockIsWrongByWeeksTrustsTheHub(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{})
	bundle := x.caSecret().Data[v1alpha1.AuthorityBundle]
	const weeks = 4 * 7 * 24 * time.Hour
	for _, age := range []time.Duration{0, pki.ServingLifetime * 2 / 3} {
		x.step(age)
		x.Expect(x.maintain(x.ctx)).To(Succeed())
		x.Expect(x.trustsAt(bundle, x.time().Add(-weeks))).To(Succeed(), "behind, %s after the issue", age)
		x.Expect(x.trustsAt(bundle, x.time().Add(weeks))).To(Succeed(), "ahead, %s after the issue", age)
	}
}

func TestARotationOfTheCAFromBeginningToEnd(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{}, newMember("eu"), newMember("us"), newMember("asia"), newMember("new"))
	w := &rotation{fixture: x, t: t, agents: map[string]*agent{}}
	for _, name := range []string{"eu", "us", "asia"} {
		w.agents[name] = x.enrolled(t, name)
	}
	x.Expect(x.maintain(x.ctx)).To(Succeed())
	oldCA := x.caSecret().Data[v1alpha1.AuthorityCertificate]
	w.expect(pki.StageStable)

	secret := x.caSecret()
	secret.Annotations = map[string]string{v1alpha1.AnnotationRotateCA: "now"}
	x.Expect(x.api.Update(x.ctx, secret)).To(Succeed())
	x.Expect(x.maintain(x.ctx)).To(Succeed())
	w.expect(pki.StageDistributing)
	x.Expect(x.caSecret().Annotations).NotTo(HaveKey(v1alpha1.AnnotationRotateCA))
	x.Expect(x.caSecret().Data[v1alpha1.AuthorityCertificate]).To(Equal(oldCA), "the old one still issues")
	newCA := x.caSecret().Data["next.crt"]
	// An agent that joins now gets both.
	w.agents["new"] = x.enrolled(t, "new")
	x.Expect(x.RotationDue(w.agents["new"].caller, v1alpha1.TrustBundleHash(w.agents["new"].bundle))).To(BeFalse())

	w.roundOf("eu")
	w.expect(pki.StageDistributing)
	// The leader changes in the middle.
	x.Authority = New(x.options)
	x.Expect(x.Prepare(x.ctx)).To(Succeed())
	w.roundOf("us")
	w.expect(pki.StageDistributing) // asia is away
	x.step(lifetime - time.Minute)
	w.roundOf("eu", "us", "new")
	w.expect(pki.StageDistributing)
	// Its certificate has expired: it must join again anyhow.
	x.step(2 * time.Minute)
	w.roundOf("eu", "us", "new")
	w.expect(pki.StageReissuing)
	x.Expect(x.caSecret().Data[v1alpha1.AuthorityCertificate]).To(Equal(newCA))
	x.Expect(x.Used(x.ctx, w.agents["asia"].caller)).To(MatchError(link.ErrCertificate))
	for _, name := range []string{"eu", "us", "new"} {
		x.Expect(x.trusts(w.agents[name].bundle)).To(Succeed(), "the agent of %s and the hub of the new CA", name)
	}

	w.roundOf("eu", "new")
	w.expect(pki.StageReissuing) // us still has one of the old CA
	w.roundOf("us")
	w.expect(pki.StageStable)
	x.Expect(x.caSecret().Data[v1alpha1.AuthorityBundle]).To(Equal(newCA))
	for _, name := range []string{"eu", "us", "new"} {
		x.Expect(x.trusts(w.agents[name].bundle)).To(Succeed())
		x.Expect(x.Used(x.ctx, w.agents[name].caller)).To(Succeed())
	}
	// They drop the old one when they are requested to, and nothing more is requested.
	w.roundOf("eu", "us", "new")
	x.Expect(w.roundOf("eu", "us", "new")).To(BeZero())
	w.expect(pki.StageStable)
	w.agents["asia"] = x.enrolled(t, "asia")
	x.Expect(w.agents["asia"].bundle).To(Equal(newCA))
	for _, reason := range []string{EventRotationBegan, EventRotationSigning, EventRotationFinished} {
		x.Expect(x.events.Events).To(Receive(ContainSubstring(reason)))
	}
}

// rotation is a rotation of the CA with some agents.
type rotation struct {
	*fixture
	t      *testing.T
	agents map[string]*agent
}

// roundOf has agents renew, and rotate and reconnect if that is due; in
// the end the hub reconciles its CA. It returns how many rotated. At each moment
// an agent trusts the hub, and the hub the agent.
func (w *rotation) roundOf(names ...string) (rotated int) {
	w.t.Helper()
	for _, name := range names {
		a := w.agents[name]
		w.Expect(w.trusts(a.bundle)).To(Succeed(), "the agent of %s does not trust the hub", name)
		// Half of a certificate's life is over: it rotates by itself.
		old := a.caller.NotAfter.Sub(w.time()) < lifetime/2
		if !old && !w.RotationDue(a.caller, v1alpha1.TrustBundleHash(a.bundle)) {
			continue
		}
		rotated++
		next := w.rotated(w.t, name, a)
		w.Expect(w.Used(w.ctx, next.caller)).To(Succeed())
		w.agents[name] = next
	}
	w.Expect(w.maintain(w.ctx)).To(Succeed())
	return rotated
}

func (w *rotation) expect(stage pki.Stage) {
	w.t.Helper()
	w.Expect(string(w.caSecret().Data["stage"])).To(Equal(string(stage)))
}

func TestAnOverwrittenStepIsRepeated(t *testing.T) {
	broken := false
	x := newFixture(t, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if broken {
				return errLost
			}
			return c.Update(ctx, o, options...)
		},
	})
	secret := x.caSecret()
	secret.Annotations = map[string]string{v1alpha1.AnnotationRotateCA: ""}
	x.Expect(x.api.Update(x.ctx, secret)).To(Succeed())
	broken = true
	x.Expect(x.maintain(x.ctx)).To(MatchError(errLost))
	x.Expect(x.ca.current.Load().state.Stage).To(Equal(pki.StageStable), "what is not kept is not done")
	broken = false
	x.Expect(x.maintain(x.ctx)).To(Succeed())
	x.Expect(x.ca.current.Load().state.Stage).To(Equal(pki.StageDistributing))
}
