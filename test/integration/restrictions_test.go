package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// restricted is the member whose administrator has set restrictions.
const restricted = "us-east"

var restrictions = []string{"--allow-open-network=false", "--allowed-host-suffixes=" + restricted + ".desktops.example.com"}

// preferring makes a session prefer a region.
func preferring(region string) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) { s.Spec.Placement.PreferredRegions = []string{region} }
}

func restrictedMember(ctx context.Context) (*v1alpha1.MemberCluster, error) {
	mc := &v1alpha1.MemberCluster{}
	return mc, hub.Get(ctx, client.ObjectKey{Name: restricted}, mc)
}

// placedIn returns the member in which a session is placed, for Eventually.
func placedIn(s *v1alpha1.VDISession) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		now, err := get(ctx, s)
		if err != nil || now.Status.Placement == nil {
			return "", err
		}
		return now.Status.Placement.ClusterName, nil
	}
}

var _ = Describe("A member's restrictions", func() {
	It("are shown on the hub, with how its namespaces enforce Pod Security", func(ctx SpecContext) {
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			mc, err := restrictedMember(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(mc.Status.Restrictions).To(Equal(&v1alpha1.MemberRestrictions{
				HostSuffixes: []string{restricted + ".desktops.example.com"}, AllowPrivateEgress: true,
			}))
			c := meta.FindStatusCondition(mc.Status.Conditions, v1alpha1.ConditionPodSecurity)
			g.Expect(c).To(HaveValue(HaveField("Reason", v1alpha1.ReasonEnforced)))
		}).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("make a template unavailable there, whose sessions run elsewhere or show why not", func(ctx SpecContext) {
		template(ctx, "open-network", func(t *v1alpha1.TemplateSpec) { t.NetworkPolicy.Mode = v1alpha1.NetworkOpen })
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			mc, err := restrictedMember(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(mc.Status.Templates).To(ContainElement(And(HaveField("Name", "open-network"), HaveField("Available", false),
				HaveField("Reason", v1alpha1.UnavailableNotAllowed), HaveField("Message", ContainSubstring("--allow-open-network")))))
		}).Should(Succeed())
		elsewhere := awaitRunning(ctx, create(ctx, newSession("open-elsewhere", of("open-network"), preferring(restricted))))
		Expect(elsewhere.Status.Placement.ClusterName).NotTo(Equal(restricted))
		Expect(elsewhere.Status.Placement.Epoch).To(BeEquivalentTo(1), "it was tried where it is not allowed")
		there := create(ctx, newSession("open-there", of("open-network"), inRegion(restricted)))
		Eventually(ctx, message(there)).Should(ContainSubstring(v1alpha1.UnavailableNotAllowed))
	}, SpecTimeout(3*time.Minute))

	It("refuse a host that the hub invents, and the session is placed elsewhere", func(ctx SpecContext) {
		domain := func(ctx context.Context, domain string) {
			GinkgoHelper()
			Eventually(ctx, func(ctx context.Context) error {
				mc, err := restrictedMember(ctx)
				if err != nil {
					return err
				}
				mc.Spec.IngressDomain = domain
				return hub.Update(ctx, mc)
			}).Should(Succeed())
		}
		before, err := restrictedMember(ctx)
		Expect(err).NotTo(HaveOccurred())
		domain(ctx, "shop.example.com")
		DeferCleanup(func(ctx SpecContext) { domain(ctx, before.Spec.IngressDomain) })

		elsewhere := create(ctx, newSession("host-elsewhere", preferring(restricted)))
		Eventually(ctx, placedIn(elsewhere)).Should(Or(Equal("eu-west"), Equal("ap-south")))
		Expect(awaitRunning(ctx, elsewhere).Status.Placement.Epoch).To(BeNumerically(">", 1), "it was not tried there first")
		there := create(ctx, newSession("host-there", inRegion(restricted)))
		Eventually(ctx, message(there)).Should(And(ContainSubstring(v1alpha1.RefusedNotAllowed), ContainSubstring("spec.ingressDomain")))
	}, SpecTimeout(3*time.Minute))
})
