package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/proxy"
)

var _ = Describe("A failure", func() {
	It("to place a session that is deleted meanwhile loses nothing", func(ctx SpecContext) {
		s := create(ctx, newSession("waits", inRegion("atlantis")))
		Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhasePending))
		Expect(hub.Delete(ctx, s)).To(Succeed())
		awaitGone(ctx, s)
	})

	It("to reach the member of a deleted session ends when the member is back", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("cut-off", inRegion("ap-south"))))
		member := memberNamed("ap-south")
		Expect(member.Proxy.Cut(proxy.CutBlackhole)).To(Succeed())
		DeferCleanup(func() { Expect(member.Proxy.Heal()).To(Succeed()) })
		Eventually(ctx, memberReady("ap-south")).Should(Equal(v1alpha1.ReasonUnreachable))
		Eventually(ctx, reason(s, v1alpha1.ConditionPodReady)).Should(Equal(v1alpha1.ReasonMemberUnreachable))
		Expect(phase(s)(ctx)).To(Equal(v1alpha1.PhaseRunning), "the last reported state stays")

		Expect(hub.Delete(ctx, s)).To(Succeed())
		Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhaseTerminating))
		Eventually(ctx, message(s)).Should(ContainSubstring("ap-south"))
		Consistently(ctx, phase(s)).Should(Equal(v1alpha1.PhaseTerminating))
		Expect(podsOf(ctx, s.UID)).To(HaveLen(1), "what runs in the member goes on")

		Expect(member.Proxy.Heal()).To(Succeed())
		awaitGone(ctx, s)
		Expect(podsOf(ctx, s.UID)).To(BeEmpty())
		Eventually(ctx, memberReady("ap-south")).Should(Equal(v1alpha1.ReasonConnected))
	})

	It("of an agent while sessions are created for its member only delays them", func(ctx SpecContext) {
		member := memberNamed("eu-west")
		Expect(member.Agent.Kill()).To(Succeed())
		s := create(ctx, newSession("patient", inRegion("eu-west")))
		Eventually(ctx, phase(s)).Should(Or(Equal(v1alpha1.PhasePending), Equal(v1alpha1.PhaseCreating)))
		Expect(member.Agent.Restart()).To(Succeed())
		awaitRunning(ctx, s)
	})

	It("of a member's API server delays what is new and disturbs nothing else", func(ctx SpecContext) {
		before := awaitRunning(ctx, create(ctx, newSession("before", inRegion(replicated))))
		member := memberNamed(replicated)
		Expect(member.ControlPlane.APIServer.Kill()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			if !member.ControlPlane.APIServer.Running() {
				Expect(member.ControlPlane.APIServer.Restart()).To(Succeed())
			}
			Expect(member.ControlPlane.WaitAPI(ctx)).To(Succeed())
		})
		s := create(ctx, newSession("during", inRegion(replicated)))
		Eventually(ctx, reason(s, v1alpha1.ConditionReady)).Should(BeElementOf(v1alpha1.ReasonSending, v1alpha1.ReasonUnschedulable))
		elsewhere := awaitRunning(ctx, create(ctx, newSession("elsewhere", inRegion("eu-west"))))
		Expect(elsewhere.Status.Placement.ClusterName).To(Equal("eu-west"))

		Expect(hub.Delete(ctx, before)).To(Succeed())
		Eventually(ctx, phase(before)).Should(Equal(v1alpha1.PhaseTerminating))
		Expect(member.ControlPlane.APIServer.Restart()).To(Succeed())
		Expect(member.ControlPlane.WaitAPI(ctx)).To(Succeed())
		awaitGone(ctx, before)
		awaitRunning(ctx, s)
	})

	It("of a member that loses the kind of its assignments moves its sessions, and it gets others once that is back", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("no-kind", inRegion("us-east"))))
		cp := memberNamed("us-east").ControlPlane
		const crd = "sessionassignments.vdi.kasm.io"
		// It is gone once the agent has removed the finalizer of its last assignment.
		_, err := cp.Kubectl(ctx, "delete", "crd", crd, "--timeout=30s")
		Expect(err).NotTo(HaveOccurred())
		root, err := harness.Root()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) {
			Expect(cp.InstallCRDs(ctx, filepath.Join(root, "deploy/charts/vdi-agent/files/crds"))).To(Succeed())
		})
		Eventually(ctx, func(ctx context.Context) ([]string, error) { return podsOf(ctx, s.UID) }).Should(BeEmpty())
		Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhasePending))
		elsewhere := awaitRunning(ctx, create(ctx, newSession("other-kind", inRegion("eu-west"))))
		Expect(elsewhere.Status.Placement.ClusterName).To(Equal("eu-west"))

		Expect(cp.InstallCRDs(ctx, filepath.Join(root, "deploy/charts/vdi-agent/files/crds"))).To(Succeed())
		again := awaitRunning(ctx, s)
		Expect(again.Status.Epoch).To(BeNumerically(">", 1))
		Expect(podsOf(ctx, s.UID)).To(HaveLen(1))
	})

	It("of all replicas of the hub does not keep an agent from repairing", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("alone", inRegion("eu-west"))))
		for _, r := range fleet.Hub.Replicas {
			Expect(r.Kill()).To(Succeed())
		}
		core := memberNamed("eu-west").ControlPlane.Client.CoreV1()
		name := v1alpha1.AssignmentName(s.Name, s.UID)
		before, err := core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(core.Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(ctx, func(ctx context.Context) (types.UID, error) {
			pod, err := core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			return pod.UID, client.IgnoreNotFound(err)
		}).ShouldNot(Or(Equal(before.UID), BeEmpty()))
		for _, r := range fleet.Hub.Replicas {
			Expect(r.Restart()).To(Succeed())
		}
		Eventually(ctx, memberReady("eu-west")).Should(Equal(v1alpha1.ReasonConnected))
		awaitRunning(ctx, s)
		Expect(podsOf(ctx, s.UID)).To(HaveLen(1))
	})

	It("of the hub in the middle of 200 creations places each session once", func(ctx SpecContext) {
		var sessions []*v1alpha1.VDISession
		group, gctx := errgroup.WithContext(ctx)
		group.SetLimit(16)
		for i := range 200 {
			s := newSession(fmt.Sprintf("burst-%03d", i), func(s *v1alpha1.VDISession) {
				s.Spec.User = fmt.Sprintf("user-%d", i)
				s.Spec.Resources = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
			})
			sessions = append(sessions, s)
			group.Go(func() error { return hub.Create(gctx, s) })
			if i == 100 {
				group.Go(func() error { return killLeader(gctx) })
			}
		}
		DeferCleanup(func(ctx SpecContext) {
			for _, s := range sessions {
				Expect(client.IgnoreNotFound(hub.Delete(ctx, s))).To(Succeed())
			}
			for _, s := range sessions {
				awaitGone(ctx, s)
			}
			Expect(restartHub()).To(Succeed())
		})
		Expect(group.Wait()).To(Succeed())
		Eventually(ctx, notIn(v1alpha1.PhaseRunning, sessions)).WithTimeout(2 * time.Minute).WithPolling(time.Second).Should(BeEmpty())
		Expect(agreement(ctx)).To(Succeed())
		for _, s := range sessions {
			out, err := get(ctx, s)
			Expect(err).NotTo(HaveOccurred())
			Expect(out.Status.Epoch).To(BeEquivalentTo(1), "%s was placed more than once", s.Name)
		}
	})
})

// memberReady returns the reason of a member's condition Ready, for Eventually.
func memberReady(name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		mc := &v1alpha1.MemberCluster{}
		if err := hub.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
			return "", err
		}
		if c := meta.FindStatusCondition(mc.Status.Conditions, v1alpha1.ConditionReady); c != nil {
			return c.Reason, nil
		}
		return "", nil
	}
}

// awaitReady waits for a member that other specs have disturbed, and that may be
// quarantined for that.
func awaitReady(ctx context.Context, member string) {
	GinkgoHelper()
	quarantine := health.DefaultTimings(timeFactor).Quarantine
	Eventually(ctx, memberReady(member)).WithTimeout(quarantine + time.Minute).Should(Equal(v1alpha1.ReasonConnected))
}

// awaitLeader waits for the hub's leader: the replica that listens for agents.
func awaitLeader(ctx context.Context) (*harness.Replica, error) {
	var leader *harness.Replica
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		leader = fleet.Hub.Leader(ctx)
		return leader != nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("no replica of the hub leads: %w", err)
	}
	return leader, nil
}

func killLeader(ctx context.Context) error {
	leader, err := awaitLeader(ctx)
	if err != nil {
		return err
	}
	return leader.Kill()
}

func restartHub() error {
	for _, r := range fleet.Hub.Replicas {
		if !r.Running() {
			if err := r.Restart(); err != nil {
				return err
			}
		}
	}
	return nil
}
