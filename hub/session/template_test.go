package session_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("A template in use", func() {
	It("shows how many sessions run which revision of it", func(ctx SpecContext) {
		t := template(ctx, "browser")
		join(ctx, "eu")
		first, _ := running(ctx, create(ctx, "desktops", "first"))
		edit(ctx, t, func() { t.Spec.Image = "registry.example.com/browser:2" })
		var second *api.VDISession
		for _, name := range []string{"second", "third"} {
			second, _ = running(ctx, create(ctx, "desktops", name))
		}
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
			g.Expect(t.Status.Sessions).To(Equal(int32(3)))
			g.Expect(t.Status.Revisions).To(Equal([]api.RevisionSessions{
				{Revision: second.Status.TemplateRevision, Sessions: 2}, {Revision: first.Status.TemplateRevision, Sessions: 1},
			}))
		}).Should(Succeed())
		Expect(t.Status.Revision).To(Equal(second.Status.TemplateRevision))
	})

	It("is kept while sessions use it, and takes no new ones once it is deleted", func(ctx SpecContext) {
		t := template(ctx, "browser")
		join(ctx, "eu")
		s, a := running(ctx, create(ctx, "desktops", "old"))
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
			g.Expect(t.Status.Sessions).To(Equal(int32(1)))
		}).Should(Succeed())
		Expect(admin.Delete(ctx, t)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(t), t)).To(Succeed())
			g.Expect(meta.FindStatusCondition(t.Status.Conditions, api.ConditionAvailable)).
				To(HaveField("Message", "being deleted: 1 session uses it; it is removed once that is deleted"))
		}).Should(Succeed())
		late := create(ctx, "desktops", "late")
		Eventually(phase(ctx, late)).Should(HavePrefix(`Failed: template "browser" is being deleted and accepts no new sessions`))
		// What was placed before may be rescheduled.
		a.deleteByHand(s.UID)
		Eventually(func() int64 { return now(ctx, s).Status.Epoch }).Should(Equal(int64(2)))
		s, _ = running(ctx, s)
		remove(ctx, s)
		Eventually(func() bool {
			return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(t), &api.VDITemplate{}))
		}).Should(BeTrue())
		Eventually(phase(ctx, late)).Should(HavePrefix(`Failed: there is no template "browser"`))
	})
})
