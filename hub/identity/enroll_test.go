package identity

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func TestEnrollmentIsDurableBeforeItIsAnswered(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{}, newMember("eu"), tokenFor("eu", token))
	a := newAgent(t)
	got, err := x.Enroll(x.ctx, a.enrollment(token))
	x.Expect(err).NotTo(HaveOccurred())
	x.takes(a, "eu", got)
	mc := x.member("eu")
	x.Expect(mc.Status.Fingerprint).To(Equal(fingerprint))
	x.Expect(mc.Status.Certificate.NextSerial).To(Equal(a.caller.Serial))
	x.Expect(mc.Status.Certificate.NextNotAfter.Time).To(BeTemporally("==", a.caller.NotAfter))
	x.Expect(mc.Status.Certificate.TrustBundleHash).To(Equal(v1alpha1.TrustBundleHash(got.GetTrustBundle())))
	x.Expect(x.changed).To(ConsistOf("eu"), "the fleet is notified before the agent")
}

func TestATokenServesOneKey(t *testing.T) {
	x := newFixture(t, interceptor.Funcs{}, newMember("eu"), tokenFor("eu", token))
	first, other := newAgent(t), newAgent(t)
	_, err := x.Enroll(x.ctx, first.enrollment(token))
	x.Expect(err).NotTo(HaveOccurred())
	before := x.member("eu")

	_, err = x.Enroll(x.ctx, other.enrollment(token))
	x.Expect(err).To(MatchError(link.ErrToken))
	x.Expect(x.member("eu")).To(Equal(before), "nothing was issued for the other")

	got, err := x.Enroll(x.ctx, first.enrollment(token))
	x.Expect(err).NotTo(HaveOccurred(), "an answer that was lost can be requested again")
	x.takes(first, "eu", got)
	x.step(31 * time.Minute)
	_, err = x.Enroll(x.ctx, first.enrollment(token))
	x.Expect(err).To(MatchError(link.ErrToken), "until the token expires")
}

func TestOfTwoConcurrentEnrollmentsOneWins(t *testing.T) {
	// Both have read the token, not used yet, before either of them marks it.
	var both sync.WaitGroup
	both.Add(2)
	var reads sync.Map
	x := newFixture(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, o, options...)
			if _, again := reads.LoadOrStore(ctx.Value(whoKey{}), true); key.Name == "join-"+tokenID && !again {
				both.Done()
				both.Wait()
			}
			return err
		},
	}, newMember("eu"), tokenFor("eu", token))
	agents := []*agent{newAgent(t), newAgent(t)}
	answers, errs := make([]*fleetv1.IssuedCertificate, 2), make([]error, 2)
	var done sync.WaitGroup
	for i := range agents {
		done.Go(func() {
			answers[i], errs[i] = x.Enroll(context.WithValue(x.ctx, whoKey{}, i), agents[i].enrollment(token))
		})
	}
	done.Wait()
	won := 0
	if errs[0] != nil {
		won = 1
	}
	x.Expect(errs[won]).NotTo(HaveOccurred())
	x.Expect(errs[1-won]).To(MatchError(link.ErrToken))
	x.Expect(answers[1-won]).To(BeNil())
	x.takes(agents[won], "eu", answers[won])
	x.Expect(x.member("eu").Status.Certificate.NextSerial).To(Equal(agents[won].caller.Serial))
	x.Expect(x.tokenUsedBy()).To(Equal(agents[won].caller.PublicKeyHash))
}

type whoKey struct{}

func TestInvalidTokensAreRefused(t *testing.T) {
	set := func(key, value string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
	}
	for name, test := range map[string]struct {
		token  string
		secret func(*corev1.Secret)
		after  time.Duration
	}{
		"empty":                    {token: ""},
		"no token":                 {token: "invalid"},
		"one that is unknown":      {token: "abc124" + token[6:]},
		"another secret":           {token: token[:len(token)-1] + "0"},
		"a Secret of another type": {secret: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }},
		"a Secret without a hash":  {secret: set(v1alpha1.JoinTokenHash, "")},
		"expired":                  {after: 30 * time.Minute},
		"valid for longer than an hour": {
			secret: set(v1alpha1.JoinTokenExpires, start.Add(48*time.Hour).Format(time.RFC3339)), after: time.Hour},
		"no expiry":                      {secret: set(v1alpha1.JoinTokenExpires, "")},
		"of a member that was recreated": {secret: set(v1alpha1.JoinTokenMemberUID, "uid-eu-before")},
		"of a member that is gone":       {secret: set(v1alpha1.JoinTokenMember, "us")},
		"of no member":                   {secret: set(v1alpha1.JoinTokenMember, "")},
		"used by another":                {secret: set(v1alpha1.JoinTokenUsedBy, strings.Repeat("0", 64))},
		"being deleted": {secret: func(s *corev1.Secret) {
			s.Finalizers, s.DeletionTimestamp = []string{"example.com/keep"}, &metav1.Time{Time: start}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			secret := tokenFor("eu", token)
			if test.secret != nil {
				test.secret(secret)
			}
			x := newFixture(t, interceptor.Funcs{}, newMember("eu"), secret)
			x.step(test.after)
			sent := token
			if test.secret == nil && test.after == 0 {
				sent = test.token
			}
			used := x.tokenUsedBy()
			_, err := x.Enroll(x.ctx, newAgent(t).enrollment(sent))
			x.Expect(err).To(MatchError(link.ErrToken))
			x.Expect(strings.Contains(err.Error(), token[7:])).To(BeFalse(), "the token is in the error")
			x.Expect(x.member("eu").Status.Certificate).To(BeNil())
			x.Expect(x.tokenUsedBy()).To(Equal(used))
		})
	}
}

func TestARefusedEnrollmentDoesNotUseTheToken(t *testing.T) {
	for name, test := range map[string]struct {
		member func(*v1alpha1.MemberCluster)
		change func(*fleetv1.EnrollRequest)
		err    error
	}{
		"another cluster": {member: func(mc *v1alpha1.MemberCluster) { mc.Status.Fingerprint = "rebuilt" }, err: link.ErrFingerprint},
		"revoked":         {member: func(mc *v1alpha1.MemberCluster) { mc.Spec.Access = v1alpha1.AccessRevoked }, err: link.ErrRevoked},
		"being removed": {member: func(mc *v1alpha1.MemberCluster) {
			mc.Finalizers, mc.DeletionTimestamp = []string{v1alpha1.MemberFinalizer}, &metav1.Time{Time: start}
		}, err: link.ErrUnknownMember},
		"no request":       {change: func(r *fleetv1.EnrollRequest) { r.CertificateRequest = nil }, err: link.ErrRequest},
		"no fingerprint":   {change: func(r *fleetv1.EnrollRequest) { r.Fingerprint = "" }, err: link.ErrRequest},
		"long fingerprint": {change: func(r *fleetv1.EnrollRequest) { r.Fingerprint = strings.Repeat("x", 65) }, err: link.ErrRequest},
	} {
		t.Run(name, func(t *testing.T) {
			mc := newMember("eu")
			if test.member != nil {
				test.member(mc)
			}
			x := newFixture(t, interceptor.Funcs{}, mc, tokenFor("eu", token))
			request := newAgent(t).enrollment(token)
			if test.change != nil {
				test.change(request)
			}
			_, err := x.Enroll(x.ctx, request)
			x.Expect(err).To(MatchError(test.err))
			x.Expect(x.tokenUsedBy()).To(BeEmpty())
			x.Expect(x.member("eu").Status.Certificate).To(BeNil())
		})
	}
}

// errLost is that of a request whose answer did not come in time, also if it is the last of several attempts.
var errLost = fmt.Errorf("the connection was lost: %w", context.DeadlineExceeded)

func TestNothingIsAnsweredThatIsNotStored(t *testing.T) {
	broken := true
	x := newFixture(t, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			if broken {
				return errLost
			}
			return c.SubResource(sub).Update(ctx, o, options...)
		},
	}, newMember("eu"), tokenFor("eu", token))
	a := newAgent(t)
	got, err := x.Enroll(x.ctx, a.enrollment(token))
	x.Expect(err).To(MatchError(errLost))
	x.Expect(got).To(BeNil())
	x.Expect(x.tokenUsedBy()).NotTo(BeEmpty(), "the token was spent before anything was issued")
	broken = false
	got, err = x.Enroll(x.ctx, a.enrollment(token))
	x.Expect(err).NotTo(HaveOccurred())
	x.takes(a, "eu", got)
}

func TestAWriteOfWhichTheAnswerWasLost(t *testing.T) {
	lose := true
	x := newFixture(t, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			err := c.Update(ctx, o, options...)
			if lose {
				return errLost
			}
			return err
		},
	}, newMember("eu"), tokenFor("eu", token))
	a := newAgent(t)
	_, err := x.Enroll(x.ctx, a.enrollment(token))
	x.Expect(err).To(MatchError(errLost))
	x.Expect(x.member("eu").Status.Certificate).To(BeNil())
	lose = false
	_, err = x.Enroll(x.ctx, newAgent(t).enrollment(token))
	x.Expect(err).To(MatchError(link.ErrToken))
	got, err := x.Enroll(x.ctx, a.enrollment(token))
	x.Expect(err).NotTo(HaveOccurred())
	x.takes(a, "eu", got)
}

// meanwhile is a write of another client before the authority's first status
// update.
func meanwhile(change func(context.Context, client.Client) error) interceptor.Funcs {
	var once sync.Once
	return interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, options ...client.SubResourceUpdateOption) error {
			var err error
			once.Do(func() { err = change(ctx, c) })
			if err != nil {
				return err
			}
			return c.SubResource(sub).Update(ctx, o, options...)
		},
	}
}

func TestAMemberThatChangesMeanwhileIsReadAgain(t *testing.T) {
	write := func(change func(*v1alpha1.MemberCluster)) interceptor.Funcs {
		return meanwhile(func(ctx context.Context, c client.Client) error {
			mc := &v1alpha1.MemberCluster{}
			if err := c.Get(ctx, client.ObjectKey{Name: "eu"}, mc); err != nil {
				return err
			}
			change(mc)
			return c.Update(ctx, mc)
		})
	}
	t.Run("by a label", func(t *testing.T) {
		x := newFixture(t, write(func(mc *v1alpha1.MemberCluster) { mc.Labels = map[string]string{"tier": "gold"} }), newMember("eu"), tokenFor("eu", token))
		a := newAgent(t)
		got, err := x.Enroll(x.ctx, a.enrollment(token))
		x.Expect(err).NotTo(HaveOccurred())
		x.takes(a, "eu", got)
		x.Expect(x.member("eu").Labels).To(HaveKey("tier"))
		x.Expect(x.member("eu").Status.Certificate.NextSerial).To(Equal(a.caller.Serial))
	})
	t.Run("by its revocation", func(t *testing.T) {
		x := newFixture(t, write(func(mc *v1alpha1.MemberCluster) { mc.Spec.Access = v1alpha1.AccessRevoked }), newMember("eu"), tokenFor("eu", token))
		_, err := x.Enroll(x.ctx, newAgent(t).enrollment(token))
		x.Expect(err).To(MatchError(link.ErrRevoked))
		x.Expect(x.member("eu").Status.Certificate).To(BeNil())
	})
}
