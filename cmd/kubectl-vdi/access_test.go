package main

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// slowHub returns a hub that processes a member each time its MemberCluster is read, except the
// first time.
func slowHub(t *testing.T, does []func(client.Client, *v1alpha1.MemberCluster) error, objects ...client.Object) *cluster {
	c := fakeHub(t, objects...)
	reads := 0
	c.client = interceptor.NewClient(c.client, interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := inner.Get(ctx, key, o, opts...); err != nil {
				return err
			}
			mc, ok := o.(*v1alpha1.MemberCluster)
			if reads++; !ok || reads == 1 || reads-2 >= len(does) {
				return nil
			}
			return does[reads-2](inner, mc)
		},
	})
	return c
}

// processRevocation writes the hub's status of a revoked member.
func processRevocation(api client.Client, mc *v1alpha1.MemberCluster) error {
	mc.Status.ObservedGeneration = mc.Generation
	mc.Status.Certificate = &v1alpha1.MemberCertificate{}
	v1alpha1.SetCondition(&mc.Status.Conditions, mc.Generation, metav1.Condition{
		Type: v1alpha1.ConditionEnrolled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRevoked, Message: "an operator revoked its access"})
	return api.Update(context.Background(), mc)
}

func waits(client.Client, *v1alpha1.MemberCluster) error { return nil }

func memberOf(g *WithT, c *cluster) *v1alpha1.MemberCluster {
	mc := &v1alpha1.MemberCluster{}
	g.Expect(c.client.Get(context.Background(), client.ObjectKey{Name: "eu"}, mc)).To(Succeed())
	return mc
}

// enrolledMember returns a member with a certificate.
func enrolledMember() *v1alpha1.MemberCluster {
	mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "eu", UID: "uid-eu", Generation: 2}}
	mc.Status.ObservedGeneration = 1
	mc.Status.Certificate = &v1alpha1.MemberCertificate{Serial: "a1"}
	return mc
}

// tokenOfEU returns the token that the member's agent joined with.
func tokenOfEU() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: "join-x"}, Type: v1alpha1.JoinTokenType,
		Data: map[string][]byte{v1alpha1.JoinTokenMemberUID: []byte("uid-eu")},
	}
}

func TestAMemberIsRevokedAndAllowedOnceTheHubHasSeenIt(t *testing.T) {
	g := NewWithT(t)
	deletesToken := func(api client.Client, _ *v1alpha1.MemberCluster) error {
		return api.Delete(context.Background(), tokenOfEU())
	}
	c := fakeHub(t, enrolledMember(), tokenOfEU())
	g.Expect(run(c, "", "revoke", "eu")).To(ContainSubstring("is revoked"))
	g.Expect(run(c, "", "revoke", "eu")).To(ContainSubstring("nothing to do"))
	revoked := memberOf(g, c)
	g.Expect(revoked.Spec.Access).To(Equal(v1alpha1.AccessRevoked))
	_, err := run(c, "", "revoke", "us")
	g.Expect(err).To(MatchError(ContainSubstring("us")))

	revoked.ResourceVersion = ""
	c = slowHub(t, []func(client.Client, *v1alpha1.MemberCluster) error{waits, processRevocation, deletesToken}, revoked, tokenOfEU())
	g.Expect(run(c, "", "allow", "eu")).To(ContainSubstring("kubectl vdi join eu"))
	allowed := memberOf(g, c)
	g.Expect(allowed.Spec.Access).To(Equal(v1alpha1.AccessAllowed))
	g.Expect(allowed.Status.Certificate.Serials()).To(BeEmpty(), "or old credentials would still be valid")
	tokens := &corev1.SecretList{}
	g.Expect(c.client.List(t.Context(), tokens)).To(Succeed())
	g.Expect(tokens.Items).To(BeEmpty())
	g.Expect(run(c, "", "allow", "eu")).To(ContainSubstring("nothing to do"), "and nothing to wait for")
}

func TestAMemberIsNotAllowedWhileTheHubHasNotSeenItsRevocation(t *testing.T) {
	shown := func(change func(*v1alpha1.MemberCluster)) *v1alpha1.MemberCluster {
		mc := enrolledMember()
		mc.Spec.Access = v1alpha1.AccessRevoked
		mc.Status.ObservedGeneration, mc.Status.Certificate = 2, &v1alpha1.MemberCertificate{}
		mc.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionEnrolled, Reason: v1alpha1.ReasonRevoked}}
		change(mc)
		return mc
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"it is of an earlier revocation": {[]client.Object{shown(func(mc *v1alpha1.MemberCluster) { mc.Status.ObservedGeneration = 1 })}, "observed generation 1 of 2"},
		"a certificate is left":          {[]client.Object{shown(func(mc *v1alpha1.MemberCluster) { mc.Status.Certificate.NextSerial = "b2" })}, "check that the hub runs"},
		"it shows no reason":             {[]client.Object{shown(func(mc *v1alpha1.MemberCluster) { mc.Status.Conditions = nil })}, "check that the hub runs"},
		"a token is left":                {[]client.Object{shown(func(*v1alpha1.MemberCluster) {}), tokenOfEU()}, "delete Secret vdi-system/join-x"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := fakeHub(t, tc.objects...)
			c.revocationTimeout = time.Millisecond
			_, err := run(c, "", "allow", "eu")
			g.Expect(err).To(MatchError(And(ContainSubstring("is not allowed yet"), ContainSubstring(tc.want))))
			g.Expect(memberOf(g, c).Spec.Access).To(Equal(v1alpha1.AccessRevoked))
		})
	}
	g := NewWithT(t)
	c := fakeHub(t, shown(func(mc *v1alpha1.MemberCluster) { mc.Status.Certificate = nil }))
	g.Expect(run(c, "", "allow", "eu")).To(ContainSubstring("is allowed"), "others issue its certificates")
}
