package placement

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// moves is the hub's counter of moved sessions.
const moves = `vdi_hub_sessions_moved_total{reason="PodUnschedulable"}`

var _ = Describe("A session whose Pod kube-scheduler finds no node for", Label(unschedulable), func() {
	It("shows it while no other member has capacity, and moves when one has: {4,2} to the hub, {3,3} to kube-scheduler", func(ctx SpecContext) {
		p := newPool("story")
		nodes := p.add(ctx, eu, pieces("4500m", "4500m")...)
		p.add(ctx, us, node{free: "1500m", used: "3"}, node{free: "2500m"})
		p.churn()
		urgent(ctx, eu)
		small := p.template(ctx, "story-small", func(t *v1alpha1.TemplateSpec) { t.PriorityClassName = special })
		large := p.template(ctx, "story-large", requesting("4"))

		By("having two of one core on one node, so that {4,2} is left")
		cordon(ctx, eu, nodes[1], true)
		Eventually(ctx, slots(eu, small)).Should(BeEquivalentTo(4))
		one, two := create(ctx, session("one", small, inRegion(eu))), create(ctx, session("two", small, inRegion(eu)))
		Eventually(ctx, member(one)).Should(Equal(eu))
		Eventually(ctx, member(two)).Should(Equal(eu))
		cordon(ctx, eu, nodes[1], false)
		Eventually(ctx, slots(eu, large)).Should(BeEquivalentTo(1))
		moved := byHub(ctx, moves)

		By("losing one of their Pods while the agent is silent, so that kube-scheduler makes {3,3}")
		m := fleet.Member(eu)
		Expect(m.Agent.Pause()).To(Succeed())
		Expect(m.ControlPlane.Scheduler.Kill()).To(Succeed())
		cordon(ctx, eu, nodes[0], true)
		Expect(clients[eu].Delete(ctx, podOf(two), client.GracePeriodSeconds(0))).To(Succeed())
		s := create(ctx, session("large", large))
		Eventually(ctx, seen.where).Should(HaveKeyWithValue(eu, 3))
		Expect(m.Agent.Resume()).To(Succeed())
		Eventually(ctx, isThere(eu, podOf(two))).Should(Succeed())
		Eventually(ctx, isThere(eu, podOf(s))).Should(Succeed())
		// kube-scheduler has all Pods at its start before it schedules the first.
		Expect(m.ControlPlane.Scheduler.Start()).To(Succeed())
		Eventually(ctx, nodeOf(eu, two)).Should(Equal(nodes[1]))
		cordon(ctx, eu, nodes[0], false)

		Eventually(ctx, condition(s, v1alpha1.ConditionPodReady)).Should(HavePrefix(v1alpha1.ReasonUnschedulablePod + ": No node fits the Pod"))
		Expect(nodeOf(eu, one)(ctx)).To(Equal(nodes[0]))
		Consistently(ctx, nodeOf(eu, s)).Should(BeEmpty())
		Expect(current(ctx, s)).To(HaveField("Status.Message", ContainSubstring("No node fits the Pod")))
		Expect(byHub(ctx, moves)).To(Equal(moved), "no other member has capacity")

		By("removing other Pods in another member")
		p.removePod(ctx, us, p.nodes[us][0])
		Eventually(ctx, member(s)).Should(Equal(us))
		Eventually(ctx, events(s)).Should(ContainElement(v1alpha1.EventMoved))
		Expect(byHub(ctx, moves)).To(Equal(moved + 1))
		Expect(member(one)(ctx)).To(Equal(eu))
		Expect(member(two)(ctx)).To(Equal(eu))
	}, SpecTimeout(specTimeout))
})

// urgent creates a priority class of Pods that kube-scheduler schedules before others.
func urgent(ctx context.Context, member string) {
	GinkgoHelper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: special}, Value: 1000}
	Expect(clients[member].Create(ctx, class)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(clients[member].Delete(ctx, class)).To(Succeed()) })
}

func cordon(ctx context.Context, member, node string, on bool) {
	GinkgoHelper()
	nodes := fleet.Member(member).ControlPlane.Client.CoreV1().Nodes()
	_, err := nodes.Patch(ctx, node, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, on), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func podOf(s *v1alpha1.VDISession) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}}
}

func isThere(member string, o client.Object) func(context.Context) error {
	return func(ctx context.Context) error { return clients[member].Get(ctx, client.ObjectKeyFromObject(o), o) }
}

// nodeOf returns the node of a session's Pod, empty if it has none, for Eventually.
func nodeOf(member string, s *v1alpha1.VDISession) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		pod := podOf(s)
		err := clients[member].Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return pod.Spec.NodeName, client.IgnoreNotFound(err)
	}
}

// condition returns a condition of a session as "reason: message", for Eventually.
func condition(s *v1alpha1.VDISession, name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		now, err := current(ctx, s)
		if err != nil {
			return "", err
		}
		if c := meta.FindStatusCondition(now.Status.Conditions, name); c != nil {
			return c.Reason + ": " + c.Message, nil
		}
		return "", nil
	}
}

func assignmentsIn(ctx context.Context, member string) ([]v1alpha1.SessionAssignment, error) {
	list := &v1alpha1.SessionAssignmentList{}
	err := clients[member].List(ctx, list)
	return list.Items, err
}
