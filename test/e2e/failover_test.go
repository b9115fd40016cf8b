package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/e2e/kindfleet"
)

// undisturbed checks that a session has run ever since a time, in one and the same Pod, no
// container of which was restarted.
func undisturbed(s *v1alpha1.VDISession, since time.Time) {
	GinkgoHelper()
	Expect(watcher.since(s, since)).To(HaveEach(v1alpha1.PhaseRunning), "phases of %s", s.Name)
	// The hub may report a Pod earlier than the watch of its member.
	Eventually(watcher.podsOf).WithArguments(s).ShouldNot(BeEmpty())
	pods := watcher.podsOf(s)
	Expect(pods).To(HaveLen(1), "Pods that %s ever had", s.Name)
	Expect(pods[0].restarts).To(BeZero(), "restarts in %s", pods[0].name)
}

var _ = Describe("The hub", func() {
	It("continues with its other replica when its leader's Pod is deleted", func(ctx SpecContext) {
		s := newSession(ctx, "leader", sample, inRegion("eu-west"))
		running(ctx, s, "eu-west")
		since := time.Now()
		first := leader(ctx)
		Expect(fleet.Hub.Client.Delete(ctx, first)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(leader(ctx).UID).NotTo(Equal(first.UID))
		}).Should(Succeed())
		reportTime("another replica of the hub leads", time.Since(since))
		next := newSession(ctx, "after-leader", sample, inRegion("us-east"))
		reportTime("a session of the new leader", running(ctx, next, "us-east"))
		for _, member := range fleet.Members {
			Eventually(ctx, ready(member.Name)).Should(BeTrue())
		}
		undisturbed(s, since)
	})
})

// leader returns the Pod of the hub's leader, or an empty one if there is none.
func leader(ctx context.Context) *corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(fleet.Hub.Client.List(ctx, &pods, client.InNamespace(kindfleet.SystemNamespace), client.MatchingLabels{"vdi.kasm.io/hub-role": "leader"})).To(Succeed())
	if len(pods.Items) == 0 {
		return &corev1.Pod{}
	}
	return &pods.Items[0]
}

var _ = Describe("A node that is drained", func() {
	It("loses the agent, which continues elsewhere, and no desktop that is in use", func(ctx SpecContext) {
		member := fleet.Member("eu-west")
		s := newSession(ctx, "drained", sample, inRegion("eu-west"))
		running(ctx, s, "eu-west")
		since := time.Now()
		desktop := podOf(ctx, s)
		cordon(ctx, member, desktop.Spec.NodeName, true)
		DeferCleanup(func(ctx SpecContext) { cordon(ctx, member, desktop.Spec.NodeName, false) })

		Expect(apierrors.IsTooManyRequests(evict(ctx, member, desktop))).To(BeTrue(), "the desktop's budget refuses its eviction")
		var agents corev1.PodList
		Expect(member.Client.List(ctx, &agents, client.InNamespace(kindfleet.SystemNamespace))).To(Succeed())
		for i := range agents.Items {
			if pod := &agents.Items[i]; pod.Spec.NodeName == desktop.Spec.NodeName {
				Eventually(ctx, func(ctx context.Context) error {
					return client.IgnoreNotFound(evict(ctx, member, pod))
				}).Should(Succeed(), "the agent's budget allows one eviction at a time")
			}
		}
		Eventually(ctx, deployed(member, "vdi-agent")).Should(BeTrue())
		Eventually(ctx, ready("eu-west")).Should(BeTrue())
		undisturbed(s, since)

		operate(ctx, s, v1alpha1.ModeSuspended)
		Eventually(ctx, alive).WithArguments(s).Should(BeEmpty())
		operate(ctx, s, v1alpha1.ModeRunning)
		running(ctx, s, "eu-west")
		Expect(podOf(ctx, s).Spec.NodeName).NotTo(Equal(desktop.Spec.NodeName))
	})
})

func cordon(ctx context.Context, c *kindfleet.Cluster, node string, cordoned bool) {
	GinkgoHelper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	Expect(c.Client.Get(ctx, client.ObjectKeyFromObject(n), n)).To(Succeed())
	patch := client.MergeFrom(n.DeepCopy())
	n.Spec.Unschedulable = cordoned
	Expect(c.Client.Patch(ctx, n, patch)).To(Succeed())
}

// evict requests a Pod's eviction as kubectl drain does.
func evict(ctx context.Context, c *kindfleet.Cluster, pod *corev1.Pod) error {
	return c.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{})
}

// deployed reports whether all replicas of a Deployment of hub or agent are updated and available.
func deployed(c *kindfleet.Cluster, name string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		var d appsv1.Deployment
		err := c.Client.Get(ctx, client.ObjectKey{Namespace: kindfleet.SystemNamespace, Name: name}, &d)
		return d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == ptr.Deref(d.Spec.Replicas, 1) &&
			d.Status.UpdatedReplicas == d.Status.AvailableReplicas && d.Status.Replicas == d.Status.UpdatedReplicas, err
	}
}

var _ = Describe("A region that is lost", Serial, func() {
	It("has its sessions Running in the other, and stops its old copies when it is back", func(ctx SpecContext) {
		var sessions []*v1alpha1.VDISession
		for _, name := range []string{"lost-0", "lost-1"} {
			s := newSession(ctx, name, sample, preferring("eu-west"))
			running(ctx, s, "eu-west")
			sessions = append(sessions, s)
		}
		member := fleet.Member("eu-west")
		DeferCleanup(restore, "eu-west")
		began := time.Now()
		Expect(member.Stop(ctx)).To(Succeed())
		for _, s := range sessions {
			running(ctx, s, "us-east")
			reportTime("a region's loss to "+s.Name+" Running in the other", time.Since(began))
			Expect(s.Status.URL).To(ContainSubstring(".us-east."))
			Eventually(ctx, visit).WithArguments(s, "/", "").Should(ContainSubstring("Sample desktop"))
		}
		restore(ctx, "eu-west")
		for _, s := range sessions {
			Eventually(ctx, alive).WithArguments(s).Should(HaveLen(1), "one copy of %s runs", s.Name)
			Expect(read(ctx, s)).To(Succeed())
			Expect(s.Status.Placement.ClusterName).To(Equal("us-east"))
		}
	})
})

// restore starts a member's containers, and waits until the hub shows the member as Ready.
func restore(ctx context.Context, name string) {
	GinkgoHelper()
	member := fleet.Member(name)
	began := time.Now()
	Expect(member.Start(ctx)).To(Succeed())
	Eventually(ctx, deployed(member, "vdi-agent")).Should(BeTrue())
	Eventually(ctx, ready(name)).Should(BeTrue())
	reportTime(name+" is Ready again after", time.Since(began))
}
