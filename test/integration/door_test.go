package integration

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/pages"
)

// opens returns what a browser sees of the desktop of a session's page, for Eventually.
func (b browser) opens(path string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		desktop, err := b.Open(ctx, path)
		if err != nil {
			return "", err
		}
		page, err := desktop.Get(ctx, desktop.Path)
		if err == nil && page.Status != http.StatusOK {
			err = errors.New(page.Body)
		}
		return page.Body, err
	}
}

var _ = Describe("The door of a member", func() {
	It("leads to desktops whom the console lets in, by one Ingress for all", func(ctx SpecContext) {
		port := startDesktop(ctx)
		template(ctx, "framed", func(t *v1alpha1.TemplateSpec) {
			t.Image, t.Port, t.Protocol, t.Path = "loopback.invalid/desktop:1", int32(port), v1alpha1.ProtocolHTTP, "/"
		})
		s := awaitRunning(ctx, create(ctx, newSession("framed", of("framed"), user("alice@example.com"), inRegion(behindDoor))))
		path := "/s/" + namespace + "/" + s.Name
		alice := loggedIn(ctx, "alice")
		Eventually(ctx, alice.opens(path)).Should(ContainSubstring("<h1>Sample desktop</h1>"))

		By("looking at what the member has for it")
		member := clientOf(memberNamed(behindDoor).ControlPlane)
		var all networkingv1.IngressList
		Expect(member.List(ctx, &all)).To(Succeed())
		Expect(all.Items).To(HaveLen(1), "one for all desktops")
		Expect(all.Items[0].Namespace).To(Equal(harness.SystemNamespace))
		Expect(all.Items[0].Spec.Rules[0].Host).To(Equal("*." + behindDoor + ".vdi.localhost"))
		Expect(s.Status.Endpoint.URL).To(HavePrefix("http://"+v1alpha1.AssignmentName(s.Name, s.UID)+"."+behindDoor+".vdi.localhost:"), "with the port of the ingress")
		mc := &v1alpha1.MemberCluster{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: behindDoor}, mc)).To(Succeed())
		Expect(mc.Status.Door).To(BeTrue())

		By("trying as others")
		bob, oscar := loggedIn(ctx, "bob"), loggedIn(ctx, "oscar")
		for _, other := range []browser{bob, oscar} {
			_, err := other.Open(ctx, path)
			Expect(err).To(MatchError(pages.ErrNoDesktop))
			desktop, err := alice.Open(ctx, path)
			Expect(err).NotTo(HaveOccurred())
			refused := other.post(ctx, path+"/pass", url.Values{"origin": {desktop.Origin}, "challenge": {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}})
			Expect(refused.Status).To(Equal(http.StatusNotFound), refused.Body)
		}

		By("giving operators the right to open others' desktops, which leaves a trace")
		meta := metav1.ObjectMeta{Namespace: namespace, Name: "open-desktops"}
		role := &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"vdisessions/desktop"}, Verbs: []string{"get"}}}}
		binding := &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "operators"}},
		}
		for _, o := range []client.Object{role, binding} {
			Expect(hub.Create(ctx, o)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(hub.Delete(ctx, o)).To(Succeed()) })
		}
		Eventually(ctx, oscar.opens(path)).Should(ContainSubstring("<h1>Sample desktop</h1>"))
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return fleet.Hub.ControlPlane.Kubectl(ctx, "get", "events", "-n", namespace, "--field-selector=reason=Visited", "-o", "jsonpath={.items[*].message}")
		}).Should(ContainSubstring("oscar@example.com opened the desktop of alice@example.com."))
		Eventually(ctx, oscar.opens(path)).Should(ContainSubstring("<h1>Sample desktop</h1>"), "a second time, which the same event counts")

		By("suspending it, after which its address leads to its page")
		desktop, err := alice.Open(ctx, path)
		Expect(err).NotTo(HaveOccurred())
		change(ctx, s, suspended)
		Eventually(ctx, func(ctx context.Context) (string, error) {
			page, err := desktop.Get(ctx, "/")
			return page.Location, err
		}).Should(Equal(fleet.Console.URL + path))
	})
})
