package session_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

func withAccess(a *api.SessionAssignment) {
	name := api.AccessSecretName(a.Name)
	a.Spec.Secrets = []api.SecretReference{{Name: name, Version: "1"}}
	a.Spec.Desktop.Access.SecretName = name
}

// send stores the access secret in a version, as agent/assignment does.
func send(ctx context.Context, a *api.SessionAssignment, version string) {
	GinkgoHelper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace, Name: api.AccessSecretName(a.Name),
			Labels: render.Selector(a), OwnerReferences: []metav1.OwnerReference{render.Owner(a)},
		},
		Type: corev1.SecretTypeBasicAuth,
	}
	dress := func() {
		secret.Data = map[string][]byte{"username": []byte("desktop"), "password": []byte("p" + version)}
		secret.Annotations = map[string]string{
			api.AnnotationSecretVersion: version,
			api.AnnotationSecretHash:    api.SecretDataHash(secret.Data),
		}
	}
	if admin.Get(ctx, client.ObjectKeyFromObject(secret), secret) == nil {
		dress()
		Expect(admin.Update(ctx, secret)).To(Succeed())
		return
	}
	dress()
	Expect(admin.Create(ctx, secret)).To(Succeed())
}

func secretOf(a *api.SessionAssignment) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: api.AccessSecretName(a.Name)}}
}

var _ = Describe("A Secret that the hub sends", func() {
	It("exists before the Pod, in the version that is ordered", specs.Smoke, func(ctx SpecContext) {
		a := assigned(ctx, withAccess)
		name := api.AccessSecretName(a.Name)
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionFalse, api.ReasonSecretMissing, name)
		Expect(a.Status.MissingSecrets).To(ConsistOf(name))
		send(ctx, a, "0")
		Consistently(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(a), podOf(a)) }).
			WithTimeout(time.Second).ShouldNot(Succeed())
		send(ctx, a, "1")
		expectReady(ctx, a)
		Eventually(ctx, func() []string { return get(ctx, a).Status.MissingSecrets }).Should(BeEmpty())
	}, SpecTimeout(3*time.Minute))

	It("is requested again when it was changed or deleted, and the desktop keeps running", func(ctx SpecContext) {
		a := assigned(ctx, withAccess)
		send(ctx, a, "1")
		expectReady(ctx, a)
		pod := get(ctx, podOf(a)).UID
		missing := func() []string { return get(ctx, a).Status.MissingSecrets }

		edit(ctx, secretOf(a), func(s *corev1.Secret) { s.Data["password"] = []byte("known") })
		Eventually(ctx, missing).Should(ConsistOf(api.AccessSecretName(a.Name)))
		send(ctx, a, "1")
		Eventually(ctx, missing).Should(BeEmpty())

		Expect(admin.Delete(ctx, secretOf(a))).To(Succeed())
		Eventually(ctx, missing).Should(ConsistOf(api.AccessSecretName(a.Name)))
		Expect(get(ctx, podOf(a)).UID).To(Equal(pod))
	}, SpecTimeout(3*time.Minute))

	It("is deleted with the assignment", func(ctx SpecContext) {
		a := assigned(ctx, withAccess)
		send(ctx, a, "1")
		expectReady(ctx, a)
		Expect(admin.Delete(ctx, a)).To(Succeed())
		expectGone(ctx, a)
		expectGone(ctx, secretOf(a))
	}, SpecTimeout(3*time.Minute))
})
