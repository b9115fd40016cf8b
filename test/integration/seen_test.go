package integration

import (
	"context"
	"crypto/tls"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("The state of the fleet", func() {
	It("shows in the metrics of the hub's leader and of every agent", func(ctx SpecContext) {
		awaitRunning(ctx, create(ctx, newSession("measured")))
		leader, err := awaitLeader(ctx)
		Expect(err).NotTo(HaveOccurred())
		// A member that another spec has disturbed is Ready once it is stable.
		Eventually(ctx, func(ctx context.Context) (string, error) { return fleet.Hub.Metrics(ctx, leader) }).Should(And(
			ContainSubstring(`vdi_hub_placements_total{result="placed"}`),
			ContainSubstring(`vdi_hub_members{health="Ready"} 3`),
			ContainSubstring(`vdi_hub_member_health{member="eu-west",state="Ready"} 1`),
			ContainSubstring(`vdi_hub_member_lease_remaining_seconds{member="eu-west"}`),
			ContainSubstring("vdi_hub_session_start_seconds_count"),
			ContainSubstring("vdi_hub_link_"),
		))
		for _, m := range fleet.Members {
			Expect(m.Metrics(ctx)).To(And(
				ContainSubstring("vdi_agent_link_"), ContainSubstring("vdi_agent_session_"),
			), m.Name)
		}
	})

	It("shows its metrics only to users with a role for them", func(ctx SpecContext) {
		leader, err := awaitLeader(ctx)
		Expect(err).NotTo(HaveOccurred())
		addresses := []string{leader.MetricsAddr}
		for _, m := range fleet.Members {
			for _, a := range m.Agents {
				addresses = append(addresses, a.MetricsAddr)
			}
		}
		certificates := &tls.Config{InsecureSkipVerify: true}
		anybody := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: certificates}}
		for _, address := range addresses {
			for url, want := range map[string]int{
				"https://" + address + "/metrics": http.StatusUnauthorized,
				"http://" + address + "/metrics":  http.StatusBadRequest,
			} {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				Expect(err).NotTo(HaveOccurred())
				response, err := anybody.Do(request)
				Expect(err).NotTo(HaveOccurred())
				Expect(response.Body.Close()).To(Succeed())
				Expect(response.StatusCode).To(Equal(want), url)
			}
		}
	})

	It("shows of a member whose agent has never connected", func(ctx SpecContext) {
		mc := &v1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: "expected"},
			Spec:       v1alpha1.MemberClusterSpec{Region: "nowhere", IngressDomain: "nowhere.example.com"},
		}
		Expect(hub.Create(ctx, mc)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(hub.Delete(ctx, mc)).To(Succeed()) })
		Eventually(ctx, memberReady("expected")).Should(Equal(v1alpha1.ReasonNeverConnected))
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(mc), mc)).To(Succeed())
		enrolled := meta.FindStatusCondition(mc.Status.Conditions, v1alpha1.ConditionEnrolled)
		Expect(enrolled).NotTo(BeNil())
		Expect(enrolled.Reason).To(Equal(v1alpha1.ReasonAwaitingAgent))
		Expect(enrolled.Message).To(ContainSubstring("kubectl vdi join expected"))
	})

	It("shows in the probes: every replica and agent is ready", func(ctx SpecContext) {
		for _, r := range fleet.Hub.Replicas {
			Expect(r.WaitReady(ctx)).To(Succeed())
		}
		for _, m := range fleet.Members {
			for _, a := range m.Agents {
				Expect(a.WaitReady(ctx)).To(Succeed())
			}
		}
	})
})
