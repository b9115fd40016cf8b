package session_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func throughGateway(o *session.Options) {
	o.Network.Gateway = &render.GatewayRef{Namespace: "gateways", Name: "public"}
}

// httpRouteCRD is the Gateway API's own, of the version in go.mod.
func httpRouteCRD() string {
	GinkgoHelper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output()
	Expect(err).NotTo(HaveOccurred())
	return filepath.Join(strings.TrimSpace(string(dir)), "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml")
}

var _ = Describe("A Gateway", Serial, Ordered, func() {
	It("whose API the cluster lacks is reported as missing, and the desktop runs", func(ctx SpecContext) {
		withAgent(throughGateway)
		a := assigned(ctx)
		expectCondition(ctx, a, api.ConditionPodReady, metav1.ConditionTrue, "", "")
		expectCondition(ctx, a, api.ConditionEndpointReady, metav1.ConditionFalse, api.ReasonApplyFailed, "install the Gateway API")
		Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKeyFromObject(a), ingressOf(a)))).To(Succeed())

		By("installing it")
		Expect(member.ApplyFile(ctx, httpRouteCRD())).To(Succeed())
		expectReady(ctx, a)
		route := get(ctx, routeOf(a))
		Expect(route.Spec.Hostnames).To(ConsistOf(gatewayv1.Hostname(a.Spec.Host)))
		Expect(route.Spec.ParentRefs).To(HaveLen(1))
		Expect(string(route.Spec.ParentRefs[0].Name)).To(Equal("public"))
	}, SpecTimeout(3*time.Minute))

	It("leads to desktops by HTTPRoutes, which are repaired like any child", func(ctx SpecContext) {
		withAgent(throughGateway)
		a := running(ctx)
		before := len(tally.of(a.Name))
		Consistently(func() []string { return tally.of(a.Name)[before:] }).Should(BeEmpty(), "what the API server fills in is no drift")
		expectRepaired(ctx, a, child{
			of: func(a *api.SessionAssignment) client.Object { return routeOf(a) },
			spoil: func(o client.Object) {
				o.(*gatewayv1.HTTPRoute).Spec.Hostnames = []gatewayv1.Hostname{"evil.example.com"}
			},
			drifted:   func(o client.Object) bool { return o.(*gatewayv1.HTTPRoute).Spec.Hostnames[0] == "evil.example.com" },
			condition: api.ConditionEndpointReady,
		})
		Expect(admin.Delete(ctx, a)).To(Succeed())
		expectGone(ctx, a)
		expectGone(ctx, routeOf(a))
	}, SpecTimeout(3*time.Minute))

	It("replaces an Ingress, and is replaced by it", func(ctx SpecContext) {
		a := running(ctx)
		get(ctx, ingressOf(a))
		By("having a Gateway")
		withAgent(throughGateway)
		expectGone(ctx, ingressOf(a))
		Eventually(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(a), routeOf(a)) }).Should(Succeed())
		By("having none")
		withAgent(func(*session.Options) {})
		expectGone(ctx, routeOf(a))
		expectReady(ctx, a)
		get(ctx, ingressOf(a))
	}, SpecTimeout(3*time.Minute))
})
