package identity

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

func TestACertificateIsValidUntilTheNextWasUsed(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{}, newMember("eu"))
	old := x.enrolled(t, "eu")
	next := x.rotated(t, "eu", old)
	x.Expect(x.member("eu").Status.Certificate.Serials()).To(ConsistOf(old.caller.Serial, next.caller.Serial))
	x.Expect(x.Used(x.ctx, old.caller)).To(Succeed(), "the answer may have been lost")
	x.Expect(x.Used(x.ctx, next.caller)).To(Succeed())
	c := x.member("eu").Status.Certificate
	x.Expect(c.Serials()).To(ConsistOf(next.caller.Serial))
	x.Expect(c.NotAfter.Time).To(BeTemporally("==", next.caller.NotAfter))
	x.Expect(c.IssuerHash).To(Equal(next.caller.IssuerHash))
	x.Expect(x.Used(x.ctx, old.caller)).To(MatchError(link.ErrCertificate))
	_, err := x.Rotate(x.ctx, old.caller, newAgent(t).request())
	x.Expect(err).To(MatchError(link.ErrCertificate))
}

func TestARotationWhoseAnswerWasLostIsRepeated(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{}, newMember("eu"))
	old := x.enrolled(t, "eu")
	lost := x.rotated(t, "eu", old)
	next := x.rotated(t, "eu", old)
	x.Expect(x.Used(x.ctx, lost.caller)).To(MatchError(link.ErrCertificate))
	x.Expect(x.Used(x.ctx, next.caller)).To(Succeed())
}

func TestACertificateThatWasNeverUsedToConnectStaysValidWhenItIsRotated(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{}, newMember("eu"))
	old := x.enrolled(t, "eu")
	next := x.rotated(t, "eu", old)
	last := x.rotated(t, "eu", next)
	x.Expect(x.member("eu").Status.Certificate.Serials()).To(ConsistOf(next.caller.Serial, last.caller.Serial))
	x.Expect(x.Used(x.ctx, next.caller)).To(Succeed())
	x.Expect(x.Used(x.ctx, last.caller)).To(Succeed())
}

func TestARotationNeedsANewKey(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{}, newMember("eu"))
	a := x.enrolled(t, "eu")
	before := x.member("eu")
	_, err := x.Rotate(x.ctx, a.caller, a.request())
	x.Expect(err).To(MatchError(link.ErrRequest))
	unknown := a.caller
	unknown.PublicKeyHash = ""
	_, err = x.Rotate(x.ctx, unknown, newAgent(t).request())
	x.Expect(err).To(MatchError(link.ErrRequest), "a caller whose key is not known might request the same")
	_, err = x.Rotate(x.ctx, a.caller, []byte("none"))
	x.Expect(err).To(MatchError(link.ErrRequest))
	x.Expect(x.member("eu")).To(Equal(before))
}

func TestACertificateThatIsUsedAgainIsNotWrittenAgain(t *testing.T) {
	writes := 0
	x := newFixture(t, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			writes++
			return c.SubResource(sub).Update(ctx, o, options...)
		},
	}, newMember("eu"))
	a := x.enrolled(t, "eu")
	x.Expect(writes).To(Equal(2), "once when it was issued and once when it was used")
	for range 3 {
		x.Expect(x.Used(x.ctx, a.caller)).To(Succeed())
	}
	x.Expect(writes).To(Equal(2))
}

func TestAUseThatCouldNotBeStoredAdmitsNoAgent(t *testing.T) {
	broken := false
	x := newFixture(t, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			if broken {
				return errLost
			}
			return c.SubResource(sub).Update(ctx, o, options...)
		},
	}, newMember("eu"))
	old := x.enrolled(t, "eu")
	next := x.rotated(t, "eu", old)
	broken = true
	x.Expect(x.Used(x.ctx, next.caller)).To(MatchError(errLost))
	broken = false
	x.Expect(x.Used(x.ctx, next.caller)).To(Succeed())
}

func TestCertificatesThatMayNotBeUsed(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*fixture, *agent)
		err    error
	}{
		"expired":              {func(x *fixture, _ *agent) { x.step(lifetime) }, link.ErrCertificate},
		"of another member":    {func(_ *fixture, a *agent) { a.caller.Member = "uid-us" }, link.ErrCertificate},
		"of an unknown member": {func(_ *fixture, a *agent) { a.caller.Member = "uid-asia" }, link.ErrUnknownMember},
		"another serial":       {func(_ *fixture, a *agent) { a.caller.Serial = "40" }, link.ErrCertificate},
		"no serial":            {func(_ *fixture, a *agent) { a.caller.Serial = "" }, link.ErrCertificate},
		"of a member that was recreated": {func(x *fixture, _ *agent) {
			x.Expect(x.api.Delete(x.ctx, x.member("eu"))).To(Succeed())
			x.Expect(x.api.Create(x.ctx, newMember("eu", func(mc *v1alpha1.MemberCluster) { mc.UID = "uid-eu-2" }))).To(Succeed())
		}, link.ErrUnknownMember},
		"revoked": {func(x *fixture, _ *agent) { x.setAccess("eu", v1alpha1.AccessRevoked) }, link.ErrRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			x := newFixture(t, interceptor.Funcs{}, newMember("eu"), newMember("us"))
			a := x.enrolled(t, "eu")
			test.change(x, a)
			x.Expect(x.Used(x.ctx, a.caller)).To(MatchError(test.err))
			_, err := x.Rotate(x.ctx, a.caller, newAgent(t).request())
			x.Expect(err).To(MatchError(test.err))
		})
	}
}

func TestTheAgentOfAMemberThatIsBeingRemovedIsServed(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{}, newMember("eu", func(mc *v1alpha1.MemberCluster) { mc.Finalizers = []string{v1alpha1.MemberFinalizer} }))
	a := x.enrolled(t, "eu")
	x.Expect(x.api.Delete(x.ctx, x.member("eu"))).To(Succeed())
	x.Expect(x.Used(x.ctx, a.caller)).To(Succeed())
	x.Expect(x.Used(x.ctx, x.rotated(t, "eu", a).caller)).To(Succeed())
}

func (x *fixture) setAccess(name string, access v1alpha1.MemberAccess) {
	mc := x.member(name)
	mc.Spec.Access = access
	x.Expect(x.api.Update(x.ctx, mc)).To(Succeed())
}

func (x *fixture) reviewAccess(name string) {
	_, err := reconcile.AsReconciler(x.options.Client, reconcile.TypedFunc[*v1alpha1.MemberCluster](x.reconcileAccess)).Reconcile(x.ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	x.Expect(err).NotTo(HaveOccurred())
}

func TestARevocationLasts(t *testing.T) {
	unused := "abc999" + token[6:]
	x := newFixture(t, interceptor.Funcs{}, newMember("eu"), newMember("us"), tokenFor("eu", unused), tokenFor("us", token))
	a := x.enrolled(t, "eu")
	next := x.rotated(t, "eu", a)
	x.reviewAccess("eu")
	x.Expect(x.member("eu").Status.Certificate.Serials()).To(HaveLen(2), "no certificate is revoked of a member whose access is allowed")

	x.setAccess("eu", v1alpha1.AccessRevoked)
	x.reviewAccess("eu")
	revoked := x.member("eu")
	x.Expect(revoked.Status.Certificate).NotTo(BeNil())
	x.Expect(revoked.Status.Certificate.Serials()).To(BeEmpty())
	x.Expect(revoked.Status.Certificate.Serials()).NotTo(BeNil())
	x.reviewAccess("eu")
	x.Expect(x.member("eu")).To(Equal(revoked), "what is done is not written again")

	late := "abc888" + token[6:]
	x.Expect(x.api.Create(x.ctx, tokenFor("eu", late))).To(Succeed())
	x.reviewAccess("eu")

	x.setAccess("eu", v1alpha1.AccessAllowed)
	x.reviewAccess("eu")
	_, err := x.Enroll(x.ctx, newAgent(t).enrollment(late))
	x.Expect(err).To(MatchError(link.ErrToken), "nor with one that was made meanwhile")
	x.Expect(x.Used(x.ctx, a.caller)).To(MatchError(link.ErrCertificate))
	x.Expect(x.Used(x.ctx, next.caller)).To(MatchError(link.ErrCertificate))
	_, err = x.Enroll(x.ctx, a.enrollment(a.token))
	x.Expect(err).To(MatchError(link.ErrToken), "not with the token of before")
	_, err = x.Enroll(x.ctx, newAgent(t).enrollment(unused))
	x.Expect(err).To(MatchError(link.ErrToken), "nor with one that was left over")
	again := x.enrolled(t, "eu")
	x.Expect(x.Used(x.ctx, again.caller)).To(Succeed())
	x.Expect(x.Used(x.ctx, a.caller)).To(MatchError(link.ErrCertificate))
	x.secret(v1alpha1.JoinTokenPrefix + tokenID) // the other member's is still there
}

func TestTokensThatExpiredLongAgoAreDeleted(t *testing.T) {
	of := func(age time.Duration) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.CreationTimestamp = metav1.Time{Time: start.Add(-age)} }
	}
	x := newFixture(t, interceptor.Funcs{},
		tokenFor("eu", "old000"+token[6:], of(26*time.Hour)),
		tokenFor("eu", "new000"+token[6:], of(24*time.Hour)),
		tokenFor("eu", "other0"+token[6:], of(26*time.Hour), func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }))
	names := func() []string {
		list := &corev1.SecretList{}
		x.Expect(x.api.List(x.ctx, list)).To(Succeed())
		var names []string
		for _, s := range list.Items {
			names = append(names, s.Name)
		}
		return names
	}
	x.Expect(x.maintain(x.ctx)).To(Succeed())
	x.Expect(names()).To(ConsistOf(v1alpha1.AuthoritySecret, "join-new000", "join-other0"))
	x.step(59 * time.Minute)
	x.Expect(x.maintain(x.ctx)).To(Succeed())
	x.step(62 * time.Minute)
	x.Expect(x.maintain(x.ctx)).To(Succeed())
	x.Expect(names()).To(ConsistOf(v1alpha1.AuthoritySecret, "join-other0"))
}

// A thousand agents that connect at once are not read from the API server; one that is revoked, as
// far as the hub's cache shows, is.
func TestAnAgentWithItsCurrentCertificateIsNotReadFromTheAPIServer(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{}, newMember("eu"))
	a := x.enrolled(t, "eu")
	x.Expect(x.Used(x.ctx, a.caller)).To(Succeed())
	live := x.options.Live
	x.options.Live = nil
	x.Expect(x.Used(x.ctx, a.caller)).To(Succeed())
	x.options.Live = live
	mc := x.member("eu")
	mc.Spec.Access = v1alpha1.AccessRevoked
	x.Expect(x.api.Update(x.ctx, mc)).To(Succeed())
	x.Expect(x.Used(x.ctx, a.caller)).To(MatchError(link.ErrRevoked))
}
