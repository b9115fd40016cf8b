package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/e2e/kindfleet"
)

// regain is R of docs/design.md, section 7: a Fence session is rescheduled no sooner, and its
// member has stopped it by then, whatever is down there.
const regain = 300 * time.Second

var _ = Describe("The guard of a Fence session", Serial, func() {
	It("has the kubelet stop the desktop in time when the agent and the API server are down", func(ctx SpecContext) {
		s := newSession(ctx, "fenced", sample, preferring("eu-west"), failing(v1alpha1.FailoverFence))
		running(ctx, s, "eu-west")
		member := fleet.Member("eu-west")
		pod := podOf(ctx, s)
		node, err := member.Node(pod.Spec.NodeName)
		Expect(err).NotTo(HaveOccurred())
		plane, err := member.Node(member.ControlPlane())
		Expect(err).NotTo(HaveOccurred())
		Expect(node.String()).NotTo(Equal(plane.String()), "the desktop's node has no control plane")

		// First the API server, so that no new agent can be created, then every agent. Until then
		// the agent renewed its lease.
		DeferCleanup(func(ctx SpecContext) {
			Expect(plane.StartControlPlane(ctx)).To(Succeed())
			Eventually(ctx, deployed(member, "vdi-agent")).Should(BeTrue())
			Eventually(ctx, ready("eu-west")).Should(BeTrue())
		})
		Expect(plane.StopControlPlane(ctx)).To(Succeed())
		killAgents(ctx, member)
		dead := time.Now()

		limit := time.Duration(float64(regain) * fleet.TimeFactor())
		var stopped kindfleet.Container
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			killAgents(ctx, member) // kubelets start them again
			stopped = desktopIn(ctx, g, node, pod)
			g.Expect(stopped.State).To(Equal(kindfleet.Exited))
		}).WithTimeout(limit + defaultTimeout).WithPolling(time.Second).Should(Succeed())
		reportTime("agent and API server dead to the desktop's end, by its containerd", stopped.Finished.Sub(dead))
		Expect(stopped.Finished.Sub(dead)).To(BeNumerically("<", limit), "R of the failover")

		running(ctx, s, "us-east")
		replacement := podOf(ctx, s)
		there, err := fleet.Member("us-east").Node(replacement.Spec.NodeName)
		Expect(err).NotTo(HaveOccurred())
		began := desktopIn(ctx, Default, there, replacement).Started
		reportTime("the desktop's end to its start in the other region", began.Sub(stopped.Finished))
		Expect(began).To(BeTemporally(">", stopped.Finished), "never two copies")
	})
})

// killAgents kills the containers of all agents of a member, in their nodes.
func killAgents(ctx context.Context, member *kindfleet.Cluster) {
	GinkgoHelper()
	nodes, err := member.Nodes()
	Expect(err).NotTo(HaveOccurred())
	for _, node := range nodes {
		_, err := (&kindfleet.Node{Node: node}).Exec(ctx, "sh", "-c", "crictl ps -q --name '^agent$' | xargs -r crictl stop -t 0")
		Expect(err).NotTo(HaveOccurred())
	}
}

// desktopIn returns the newest container of a Pod's desktop in its node.
func desktopIn(ctx context.Context, g Gomega, node *kindfleet.Node, pod *corev1.Pod) kindfleet.Container {
	containers, err := node.Containers(ctx, "desktop")
	g.Expect(err).NotTo(HaveOccurred())
	var newest kindfleet.Container
	for _, c := range containers {
		if c.Pod == pod.Name && c.Namespace == pod.Namespace && c.Started.After(newest.Started) {
			newest = c
		}
	}
	g.Expect(newest.ID).NotTo(BeEmpty(), "no container of %s in %s", client.ObjectKeyFromObject(pod), node)
	return newest
}
