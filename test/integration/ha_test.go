package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/leadership"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

var _ = Describe("Two replicas of the hub", func() {
	BeforeEach(func(ctx SpecContext) {
		Expect(restartHub()).To(Succeed())
		for _, r := range fleet.Hub.Replicas {
			Expect(r.WaitReady(ctx)).To(Succeed())
		}
		awaitServed(ctx)
	})

	It("are both Ready, and the Service selects the leader only", func(ctx SpecContext) {
		for _, r := range fleet.Hub.Replicas {
			Eventually(ctx, podReady(r)).Should(BeTrue(), r.PodName)
		}
		leader, other := leaderAndOther(ctx)
		Expect(labeled(ctx)).To(Equal([]string{leader.PodName}))
		Expect(fleet.Hub.Service.Backend()).NotTo(Equal(other.LinkAddr))
	})

	It("route the agents to the other when the leader is killed, whose Pod keeps its label until then", func(ctx SpecContext) {
		leader, other := leaderAndOther(ctx)
		Expect(leader.Kill()).To(Succeed())
		killed := time.Now()
		DeferCleanup(func(ctx SpecContext) {
			Expect(restartHub()).To(Succeed())
			Expect(leader.WaitReady(ctx)).To(Succeed())
		})
		Expect(labeled(ctx)).To(Equal([]string{leader.PodName}), "no replica is left that could remove it")

		Eventually(ctx, labeled).Should(Equal([]string{other.PodName}))
		awaitServed(ctx)
		AddReportEntry("from the kill to agents at the new leader", time.Since(killed).String())
		awaitRunning(ctx, create(ctx, newSession("after-kill")))

		Expect(leader.Start()).To(Succeed())
		Expect(leader.WaitReady(ctx)).To(Succeed())
		Eventually(ctx, podReady(leader)).Should(BeTrue())
		Consistently(ctx, labeled).Should(Equal([]string{other.PodName}), "one that starts does not lead")
	})

	It("do not both write or grant when the leader was frozen while the other took over", func(ctx SpecContext) {
		before := awaitRunning(ctx, create(ctx, newSession("before-freeze")))
		frozen, other := leaderAndOther(ctx)
		agent := dialAsAgent(ctx, frozen, fleet.Members[0])
		was := frozen.PID()
		ended := func() bool { return !frozen.Running() || frozen.PID() != was }
		Expect(frozen.Pause()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(frozen.Resume()).To(Succeed())
			Eventually(ctx, ended).Should(BeTrue(), "it ends by itself, since it has lost the lock")
			Eventually(ctx, frozen.Running).Should(BeTrue(), "it is started again")
			Expect(frozen.WaitReady(ctx)).To(Succeed())
		})
		Eventually(ctx, labeled).Should(Equal([]string{other.PodName}))
		awaitServed(ctx)
		// A replica that still acts as the leader has something to do.
		Expect(hub.Delete(ctx, before)).To(Succeed())
		awaitGone(ctx, before)
		during := awaitRunning(ctx, create(ctx, newSession("during-freeze")))
		terms := agentTerms(ctx)

		mark, err := harness.AuditMark(fleet.Hub.ControlPlane.AuditLog())
		Expect(err).NotTo(HaveOccurred())
		// A request to the old leader while it is frozen is the first that it receives when it
		// continues.
		answer := make(chan error, 1)
		go func() {
			_, err := agent.RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "any", Sequence: 1})
			answer <- err
		}()
		Consistently(ctx, answer).ShouldNot(Receive(), "it is frozen")
		Expect(frozen.Resume()).To(Succeed())
		var answered error
		Eventually(ctx, answer).Should(Receive(&answered))
		Expect(status.Code(answered)).To(Equal(codes.Unavailable), "it does not lead, or has ended already: %v", answered)
		Eventually(ctx, ended).Should(BeTrue(), "it ends by itself, since it has lost the lock")

		wrote, err := harness.CountWrites(fleet.Hub.ControlPlane.AuditLog(), harness.CountOptions{
			Offset: mark, Agent: frozen.PodName, Events: true, Leases: true, ByAgent: true,
		})
		Expect(err).NotTo(HaveOccurred())
		for _, w := range wrote {
			// Its elector may read the lock, and report that it has lost it.
			Expect(w.Agent).To(HaveSuffix("/leader-election"), "the frozen leader wrote %+v", w)
			Expect(w.Resource).To(BeElementOf("leases", "events"))
			if w.Resource == "leases" {
				Expect(w.Failed).To(Equal(w.Count), "the frozen leader renewed the lock: %+v", w)
			}
		}
		for member, term := range agentTerms(ctx) {
			// The new leader's term grows with its orders.
			Expect(term).To(BeNumerically(">=", terms[member]), "no agent has an order of the old leader")
		}
		Expect(labeled(ctx)).To(Equal([]string{other.PodName}))
		out, err := get(ctx, during)
		Expect(err).NotTo(HaveOccurred())
		Expect(out.Status.Epoch).To(BeEquivalentTo(1))
		Expect(out.Status.Phase).To(Equal(v1alpha1.PhaseRunning))
	})

	It("hand over without a lost message when the leader ends on SIGTERM", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("handed-over")))
		leader, other := leaderAndOther(ctx)
		before := renewals(ctx)
		stopped := time.Now()
		Expect(leader.Stop()).To(Succeed())
		ended := time.Since(stopped)
		DeferCleanup(func(ctx SpecContext) {
			Expect(restartHub()).To(Succeed())
			Expect(leader.WaitReady(ctx)).To(Succeed())
		})
		Eventually(ctx, labeled).WithPolling(20 * time.Millisecond).Should(Equal([]string{other.PodName}))
		took := time.Since(stopped)
		var first, last time.Duration
		Eventually(ctx, func(ctx context.Context) (bool, error) {
			back := 0
			for _, m := range fleet.Members {
				link, err := m.Proxy.Status()
				if err != nil {
					return false, err
				}
				if link.Backend == other.LinkAddr && renewals(ctx)[m.Name] > before[m.Name] {
					back++
				}
			}
			if back > 0 && first == 0 {
				first = time.Since(stopped)
			}
			last = time.Since(stopped)
			return back == len(fleet.Members), nil
		}).WithPolling(20 * time.Millisecond).Should(BeTrue())
		AddReportEntry("handing over", fmt.Sprintf(
			"from SIGTERM, timings scaled by %v: process ended %s, label moved %s, first renewal %s, last %s",
			timeFactor, ended, took, first, last))
		out, err := get(ctx, s)
		Expect(err).NotTo(HaveOccurred())
		Expect(out.Status.Phase).To(Equal(v1alpha1.PhaseRunning))
		Expect(out.Status.Epoch).To(Equal(s.Status.Epoch))
	})
})

// awaitServed waits until every agent is connected to the Service's backend.
func awaitServed(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		backend := fleet.Hub.Service.Backend()
		if backend == "" {
			return errors.New("the hub's Service leads nowhere")
		}
		for _, m := range fleet.Members {
			link, err := m.Proxy.Status()
			if err != nil {
				return err
			}
			if link.Connections == 0 || link.Backend != backend {
				return fmt.Errorf("%s: %+v", m.Name, link)
			}
		}
		return nil
	}).Should(Succeed())
	for _, m := range fleet.Members {
		Eventually(ctx, memberReady(m.Name)).Should(Equal(v1alpha1.ReasonConnected))
	}
}

// dialAsAgent connects to a replica with a certificate of the member's agent, and makes one call.
func dialAsAgent(ctx context.Context, r *harness.Replica, m *harness.Member) fleetv1.FleetServiceClient {
	GinkgoHelper()
	pair, err := fleet.PKI.CA.Issue(harness.AgentRequest(m.UID))
	Expect(err).NotTo(HaveOccurred())
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	Expect(err).NotTo(HaveOccurred())
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(fleet.PKI.CA.CertPEM)
	conn, err := grpc.NewClient(r.LinkAddr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{certificate}, RootCAs: authorities, ServerName: "localhost", MinVersion: tls.VersionTLS13,
	})))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(conn.Close)
	client := fleetv1.NewFleetServiceClient(conn)
	_, err = client.RenewLease(ctx, &fleetv1.RenewLeaseRequest{Instance: "any", Sequence: 1})
	Expect(status.Code(err)).To(Equal(codes.AlreadyExists), "a leader recognizes that the stream is another process's: %v", err)
	return client
}

func leaderAndOther(ctx context.Context) (leader, other *harness.Replica) {
	GinkgoHelper()
	leader, err := awaitLeader(ctx)
	Expect(err).NotTo(HaveOccurred())
	for _, r := range fleet.Hub.Replicas {
		if r != leader {
			other = r
		}
	}
	return leader, other
}

// labeled returns the Pods that carry the leader's label.
func labeled(ctx context.Context) ([]string, error) {
	pods, err := fleet.Hub.ControlPlane.Client.CoreV1().Pods(harness.SystemNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: leadership.LabelRole + "=" + leadership.RoleLeader,
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names, nil
}

func podReady(r *harness.Replica) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		pod, err := fleet.Hub.ControlPlane.Client.CoreV1().Pods(harness.SystemNamespace).Get(ctx, r.PodName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == "Ready" {
				return c.Status == "True", nil
			}
		}
		return false, nil
	}
}

var renewed = regexp.MustCompile(`(?m)^vdi_agent_link_renewals_total\{code="OK"\} (\S+)$`)

// renewals returns the number of successful lease renewals of each agent.
func renewals(ctx context.Context) map[string]float64 {
	GinkgoHelper()
	counts := map[string]float64{}
	for _, m := range fleet.Members {
		text, err := m.Metrics(ctx)
		Expect(err).NotTo(HaveOccurred())
		if match := renewed.FindStringSubmatch(text); match != nil {
			counts[m.Name], err = strconv.ParseFloat(match[1], 64)
			Expect(err).NotTo(HaveOccurred())
		}
	}
	return counts
}

// agentTerms returns the highest hub term that each agent has stored.
func agentTerms(ctx context.Context) map[string]int64 {
	GinkgoHelper()
	terms := map[string]int64{}
	for _, m := range fleet.Members {
		state, err := m.ControlPlane.Client.CoreV1().ConfigMaps(harness.SystemNamespace).Get(ctx, "vdi-agent-state", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		terms[m.Name], err = strconv.ParseInt(state.Data["highestHubTerm"], 10, 64)
		Expect(err).NotTo(HaveOccurred())
	}
	return terms
}
