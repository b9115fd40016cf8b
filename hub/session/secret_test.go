package session_test

import (
	"context"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// access returns a session's access secret, for Eventually.
func access(ctx context.Context, s *api.VDISession) func(Gomega) *corev1.Secret {
	return func(g Gomega) *corev1.Secret {
		secret := &corev1.Secret{}
		g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: api.AssignmentName(s.Name, s.UID)}, secret)).To(Succeed())
		return secret
	}
}

func accessNow(ctx context.Context, s *api.VDISession) *corev1.Secret {
	GinkgoHelper()
	return access(ctx, s)(NewWithT(GinkgoT()))
}

// sent returns the data of a Secret that an agent was last sent, by its name in the member.
func sent(a *agent, uid types.UID, name string) func() map[string][]byte {
	return func() map[string][]byte {
		for _, p := range a.holds(uid).Payload {
			if p.Name == name {
				return p.Data
			}
		}
		return nil
	}
}

func password(secret *corev1.Secret) string { return string(secret.Data[corev1.BasicAuthPasswordKey]) }

func distributed(ctx context.Context, name, content string, labels map[string]string) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: systemNamespace, Name: name, Labels: labels}}
	secret.Data = map[string][]byte{"key": []byte(content)}
	Expect(admin.Create(ctx, secret)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(admin.Delete(ctx, secret))).To(Succeed()) })
	return secret
}

var travels = map[string]string{api.LabelSecret: api.SecretDistribute}

var _ = Describe("An access secret", func() {
	It("is created in the session's namespace, and sent to the member", func(ctx SpecContext) {
		template(ctx, "browser", func(t *api.TemplateSpec) { t.Access.PasswordEnv = "VNC_PW" })
		join(ctx, "eu")
		s, a := running(ctx, create(ctx, "desktops", "mine"))
		secret := accessNow(ctx, s)
		Expect(s.Status.AccessSecretName).To(Equal(secret.Name))
		Expect(secret.Type).To(Equal(corev1.SecretTypeBasicAuth))
		Expect(secret.Labels).To(HaveKeyWithValue(api.LabelSecret, api.SecretAccess))
		Expect(secret.OwnerReferences).To(ConsistOf(And(HaveField("Kind", "VDISession"), HaveField("UID", s.UID))))
		Expect(string(secret.Data[corev1.BasicAuthUsernameKey])).To(Equal("desktop"))
		Expect(password(secret)).To(MatchRegexp("^[a-z2-7]{32}$"))

		held := a.holds(s.UID)
		name := held.Name + "-access"
		Expect(held.Spec.Desktop.Access).To(Equal(api.AssignedAccess{SecretName: name, PasswordEnv: "VNC_PW"}))
		Expect(held.Spec.Secrets).To(ConsistOf(HaveField("Name", name)))
		Expect(sent(a, s.UID, name)()).To(Equal(secret.Data))
	})

	It("is not created where the template requests none", func(ctx SpecContext) {
		template(ctx, "browser", func(t *api.TemplateSpec) { t.Access.Mode = api.AccessNone })
		join(ctx, "eu")
		s, a := running(ctx, create(ctx, "desktops", "mine"))
		Expect(s.Status.AccessSecretName).To(BeEmpty())
		Expect(a.holds(s.UID).Spec.Secrets).To(BeEmpty())
		err := admin.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: a.holds(s.UID).Name}, &corev1.Secret{})
		Expect(client.IgnoreNotFound(err)).To(Succeed())
		Expect(err).To(HaveOccurred())
	})

	It("changes with a resume, and stays the same until then", func(ctx SpecContext) {
		template(ctx, "browser")
		join(ctx, "eu")
		s, a := running(ctx, create(ctx, "desktops", "mine"))
		first := accessNow(ctx, s)
		Expect(first.Annotations).To(HaveKeyWithValue(api.AnnotationRun, "1.1"))
		edit(ctx, s, func() { s.Spec.Files = []api.ConfigFile{{Name: "motd", Content: "hello"}} })
		Eventually(func() []api.ConfigFile { return a.holds(s.UID).Spec.Desktop.Files }).Should(HaveLen(1))
		edit(ctx, s, func() { suspended(&s.Spec) })
		Eventually(func() api.OperatingMode { return a.holds(s.UID).Spec.RunState }).Should(Equal(api.ModeSuspended))
		Expect(accessNow(ctx, s).ResourceVersion).To(Equal(first.ResourceVersion))
		edit(ctx, s, func() { s.Spec.OperatingMode = api.ModeRunning })
		s, _ = running(ctx, s)
		second := accessNow(ctx, s)
		Expect(second.Annotations).To(HaveKeyWithValue(api.AnnotationRun, "1.2"))
		Expect(password(second)).NotTo(Equal(password(first)))
		Expect(sent(a, s.UID, second.Name+"-access")()).To(Equal(second.Data))
	})

	It("is sent as it is, repaired where it is invalid, and recreated where it is gone", func(ctx SpecContext) {
		template(ctx, "browser")
		join(ctx, "eu")
		s, a := running(ctx, create(ctx, "desktops", "mine"))
		secret := accessNow(ctx, s)
		name := secret.Name + "-access"
		By("choosing a password of one's own")
		edit(ctx, secret, func() { secret.Data[corev1.BasicAuthPasswordKey] = []byte("of my own") })
		Eventually(sent(a, s.UID, name)).Should(HaveKeyWithValue(corev1.BasicAuthPasswordKey, []byte("of my own")))

		By("omitting the password and the label")
		edit(ctx, secret, func() {
			secret.Data = map[string][]byte{corev1.BasicAuthUsernameKey: []byte("me"), "junk": make([]byte, 100_000)}
			secret.Data[corev1.BasicAuthPasswordKey] = nil
			delete(secret.Labels, api.LabelSecret)
		})
		Eventually(access(ctx, s)).Should(WithTransform(password, MatchRegexp("^[a-z2-7]{32}$")))
		repaired := accessNow(ctx, s)
		Expect(repaired.Labels).To(HaveKeyWithValue(api.LabelSecret, api.SecretAccess))
		Eventually(sent(a, s.UID, name)).Should(Equal(repaired.Data))

		By("deleting it")
		Expect(admin.Delete(ctx, repaired)).To(Succeed())
		Eventually(access(ctx, s)).ShouldNot(WithTransform(password, Equal(password(repaired))))
		Eventually(func(g Gomega) {
			g.Expect(sent(a, s.UID, name)()).To(Equal(access(ctx, s)(g).Data))
		}).Should(Succeed())
		running(ctx, s)
	})

	It("never replaces a Secret of another owner", func(ctx SpecContext) {
		template(ctx, "browser")
		s := create(ctx, "desktops", "mine")
		secret := &corev1.Secret{StringData: map[string]string{"mine": "and of no other"}}
		secret.Namespace, secret.Name = "desktops", api.AssignmentName(s.Name, s.UID)
		Expect(admin.Create(ctx, secret)).To(Succeed())
		a := join(ctx, "eu")
		Eventually(phase(ctx, s)).Should(Equal("Creating: secret " + secret.Name +
			" has the name of the session's access secret and belongs to another owner: delete it, or create the session under another name"))
		Expect(reason(ctx, s, api.ConditionAssigned)(NewWithT(GinkgoT()))).To(Equal("False/NameTaken"))
		Consistently(a.sessions).Should(BeEmpty())
		Expect(accessNow(ctx, s).Data).To(Equal(map[string][]byte{"mine": []byte("and of no other")}))
		Expect(admin.Delete(ctx, secret)).To(Succeed())
		// The hub gets no event of a Secret that is not its own.
		edit(ctx, s, func() { s.Spec.Timeout = "8h" })
		running(ctx, s)
	})
})

var _ = Describe("A Secret that a template names", func() {
	It("is sent to members that the hub's administrator allows, under a name of the session's own", func(ctx SpecContext) {
		secret := distributed(ctx, "registry", "one", travels)
		distributed(ctx, "private", "hidden", nil)
		template(ctx, "browser", func(t *api.TemplateSpec) {
			t.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}, {Name: "private"}}
			t.Secrets = []api.SecretUse{{Name: "registry", MountPath: "/run/registry"}, {Name: "of-the-member", MountPath: "/run/other"}}
		})
		join(ctx, "eu")
		s, a := running(ctx, create(ctx, "desktops", "mine"))
		held := a.holds(s.UID)
		name := api.SentSecretName(held.Name, "registry")
		Expect(held.Spec.Desktop.ImagePullSecrets).To(Equal([]corev1.LocalObjectReference{{Name: name}, {Name: "private"}}))
		Expect(held.Spec.Desktop.Secrets).To(HaveExactElements(HaveField("Name", name), HaveField("Name", "of-the-member")))
		Expect(held.Payload).To(HaveLen(2), "it, and the access secret")
		Expect(sent(a, s.UID, name)()).To(Equal(secret.Data))
		other, _ := running(ctx, create(ctx, "desktops", "other"))
		Expect(a.holds(other.UID).Spec.Desktop.ImagePullSecrets[0].Name).NotTo(Equal(name))

		By("changing it, which reconciles every session")
		edit(ctx, secret, func() { secret.Data = map[string][]byte{"key": []byte("two")} })
		for _, s := range []*api.VDISession{s, other} {
			Eventually(func() map[string][]byte {
				return sent(a, s.UID, a.holds(s.UID).Spec.Desktop.ImagePullSecrets[0].Name)()
			}).Should(Equal(secret.Data))
		}
		By("removing the label, after which it is not sent any more")
		edit(ctx, secret, func() { secret.Labels = nil })
		Eventually(func() []api.SecretReference { return a.holds(s.UID).Spec.Secrets }).Should(HaveLen(1))
		Expect(a.holds(s.UID).Spec.Desktop.ImagePullSecrets[0].Name).To(Equal("registry"))
	})

	It("is too large to be sent, which is shown", func(ctx SpecContext) {
		secret := distributed(ctx, "registry", "", travels)
		edit(ctx, secret, func() { secret.Data = map[string][]byte{"key": make([]byte, 200_000)} })
		template(ctx, "browser", func(t *api.TemplateSpec) {
			t.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		})
		join(ctx, "eu")
		s := create(ctx, "desktops", "mine")
		Eventually(phase(ctx, s)).Should(HavePrefix("Creating: secret vdi-system/registry that the template names is too large to travel (200003 bytes"))
		edit(ctx, secret, func() { secret.Data = map[string][]byte{"key": []byte("small")} })
		running(ctx, s)
	})

	It("is written once for each session, and never again", func(ctx SpecContext) {
		distributed(ctx, "registry", "one", maps.Clone(travels))
		template(ctx, "browser", func(t *api.TemplateSpec) {
			t.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
		})
		a := join(ctx, "eu")
		running(ctx, create(ctx, "desktops", "first"))
		settled()
		before := mark()
		s, _ := running(ctx, create(ctx, "desktops", "mine"))
		settled()
		expectFewWrites(before)
		before, orders := mark(), a.ordersSeen()
		replaceHub()
		running(ctx, s)
		settled()
		Expect(sessionWrites(before)).To(BeEmpty())
		Expect(a.ordersSeen()).To(Equal(orders))
	})
})
