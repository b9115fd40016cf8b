package elastic

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/permissions"
)

// nodeDelay is how long a node of this spec takes: much longer than a session that takes a slot of the buffer.
const nodeDelay = 60 * time.Second

var _ = Describe("A member with a buffer", Label(long), func() {
	It("runs a burst at once on the slots of the buffer, refills it with new nodes, and follows its schedule", func(ctx SpecContext) {
		slow := pool("desktops")
		slow.RegistrationDelay = nodeDelay
		startWith(ctx, []string{"--buffer-image=vdi-agent:harness"}, growing(eu, slow))
		declare(ctx, eu, v1alpha1.NodeGroup{Name: "desktops", KarpenterNodePool: "desktops", MaxNodes: ptr.To[int32](20), Node: standard16()})
		template(ctx, "browser", "5") // three fit on a node of 15.9 cores
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Available: 0 nodes, 0 provisioning, 20 growable"))
		Expect(requestsForDeployments()).To(BeEmpty(), "a member without buffers costs nothing")

		keep(ctx, eu, v1alpha1.Buffer{Template: "browser", Slots: 20}, v1alpha1.Buffer{Template: "developer", Slots: 1})
		Eventually(ctx, bufferOf(eu, "developer")).Should(Equal("0 of 1 held, 0 pending, TemplateNotFound"))
		keep(ctx, eu, v1alpha1.Buffer{Template: "browser", Slots: 20})
		Eventually(ctx, bufferOf(eu, "browser")).Should(Equal("20 of 20 held, 0 pending"))
		Eventually(ctx, buffered(eu)).Should(Equal("True BuffersKept"))
		before := nodesOf(ctx, eu)
		Expect(len(before)).To(BeNumerically("~", 7, 1), "Karpenter may need two batches")
		Eventually(ctx, freeSlotsOf(eu, "browser")).Should(BeEquivalentTo(3*len(before)), "what the buffer holds is free")
		Consistently(ctx, freeSlotsOf(eu, "browser")).WithTimeout(5 * time.Second).Should(BeEquivalentTo(3 * len(before)))

		took := newStopwatch(ctx)
		createAll(ctx, 20, "burst", "browser")
		Eventually(ctx, counted(running)).WithTimeout(nodeDelay).Should(Equal(20))
		Expect(nodesOf(ctx, eu)).To(ConsistOf(before), "they run before any node that is added for the buffer is there")
		Eventually(ctx, took.count).Should(Equal(20))
		times := took.stop()
		AddReportEntry("until Running, of 20 created at once", fmt.Sprintf("median %s, slowest %s", times[10], times[19]))
		for _, s := range sessions(ctx, running) {
			Expect(s.Status.Epoch).To(Equal(int64(1)), "%s was moved", s.Name)
			Expect(scheduled(s).Reason).To(Equal(v1alpha1.ReasonPlaced), "%s takes a slot that is free", s.Name)
		}
		began := time.Now()
		Eventually(ctx, bufferOf(eu, "browser")).WithTimeout(3 * nodeDelay).Should(Equal("20 of 20 held, 0 pending"))
		Eventually(ctx, freeSlotsOf(eu, "browser")).Should(BeNumerically(">=", 20), "20 are free again")
		AddReportEntry("until the buffer was full again", time.Since(began).Round(time.Second).String())
		Expect(sessions(ctx, running)).To(HaveLen(20), "no session has lost its slot to the buffer")

		By("a period of its schedule begins")
		begins := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
		if time.Until(begins) < 10*time.Second {
			begins = begins.Add(time.Minute)
		}
		keep(ctx, eu, v1alpha1.Buffer{Template: "browser", Slots: 20, Schedule: []v1alpha1.BufferPeriod{
			{From: begins.Format("15:04"), To: begins.Add(time.Hour).Format("15:04"), TimeZone: "UTC", Slots: 3},
		}})
		Consistently(ctx, bufferOf(eu, "browser")).WithTimeout(time.Until(begins) - 2*time.Second).Should(Equal("20 of 20 held, 0 pending"))
		Eventually(ctx, bufferOf(eu, "browser")).WithTimeout(20 * time.Second).Should(Equal("3 of 3 held, 0 pending"))
		Expect(time.Now()).To(BeTemporally(">=", begins))

		By("its numbers outlast the hub")
		Expect(fleet.Hub.Replicas[0].Kill()).To(Succeed())
		Consistently(ctx, podsOfBuffer).WithTimeout(5 * time.Second).Should(Equal(3))

		By("it is removed")
		Expect(fleet.Hub.Replicas[0].Start()).To(Succeed())
		Expect(fleet.WaitMembersReady(ctx)).To(Succeed())
		keep(ctx, eu)
		Eventually(ctx, podsOfBuffer).Should(Equal(0))
		Eventually(ctx, buffered(eu)).Should(BeEmpty())
	}, NodeTimeout(specTimeout))
})

// keep sets the buffers of a member.
func keep(ctx context.Context, member string, buffers ...v1alpha1.Buffer) {
	GinkgoHelper()
	m := &v1alpha1.MemberCluster{}
	Expect(hub.Get(ctx, client.ObjectKey{Name: member}, m)).To(Succeed())
	before := client.MergeFrom(m.DeepCopy())
	m.Spec.Buffers = buffers
	Expect(hub.Patch(ctx, m, before)).To(Succeed())
}

// bufferOf returns the state of a member's buffer as its status shows it.
func bufferOf(member, template string) func(context.Context) string {
	return func(ctx context.Context) string {
		m := &v1alpha1.MemberCluster{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: member}, m)).To(Succeed())
		for _, b := range m.Status.Buffers {
			if b.Template == template {
				text := fmt.Sprintf("%d of %d held, %d pending", b.Held, b.Slots, b.Pending)
				if b.Reason != "" {
					text += ", " + b.Reason
				}
				return text
			}
		}
		return "none"
	}
}

// buffered returns the condition Buffered of a member.
func buffered(member string) func(context.Context) string {
	return func(ctx context.Context) string {
		m := &v1alpha1.MemberCluster{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: member}, m)).To(Succeed())
		c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionBuffered)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
}

// freeSlotsOf returns the free slots of a template in a member as its status shows them.
func freeSlotsOf(member, template string) func(context.Context) int32 {
	return func(ctx context.Context) int32 {
		m := &v1alpha1.MemberCluster{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: member}, m)).To(Succeed())
		for _, t := range m.Status.Templates {
			if t.Name == template {
				return t.Slots
			}
		}
		return -1
	}
}

// nodesOf returns the nodes of a member's NodePool.
func nodesOf(ctx context.Context, member string) (names []string) {
	GinkgoHelper()
	nodes, err := fleet.Member(member).ControlPlane.Karpenter.NodePools.Nodes(ctx, "desktops")
	Expect(err).NotTo(HaveOccurred())
	for i := range nodes {
		names = append(names, nodes[i].Name)
	}
	return names
}

// podsOfBuffer counts the Pods of the buffer.
func podsOfBuffer(ctx context.Context) int {
	list, err := fleet.Member(eu).ControlPlane.Client.CoreV1().Pods(harness.SystemNamespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelBuffer})
	Expect(err).NotTo(HaveOccurred())
	return len(list.Items)
}

// requestsForDeployments returns what the agent has requested of Deployments.
func requestsForDeployments() (out []string) {
	GinkgoHelper()
	all, err := permissions.RequestsOf(fleet.Member(eu).ControlPlane.AuditLog(), harness.AgentUser)
	Expect(err).NotTo(HaveOccurred())
	for r := range all {
		if r.Resource == "deployments" {
			out = append(out, r.String())
		}
	}
	return out
}

// stopwatch measures how long sessions take until they are Running, as a watch shows it.
type stopwatch struct {
	mu    sync.Mutex
	times map[string]time.Duration
	end   func()
}

// newStopwatch begins to measure the sessions that are created from now on.
func newStopwatch(ctx context.Context) *stopwatch {
	GinkgoHelper()
	api, err := client.NewWithWatch(fleet.Hub.ControlPlane.Config, client.Options{Scheme: hub.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	watch, err := api.Watch(ctx, &v1alpha1.VDISessionList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	s := &stopwatch{times: map[string]time.Duration{}, end: watch.Stop}
	created := map[string]time.Time{}
	go func() {
		for e := range watch.ResultChan() {
			session, ok := e.Object.(*v1alpha1.VDISession)
			if !ok {
				continue
			}
			if _, known := created[session.Name]; !known {
				created[session.Name] = time.Now()
			}
			s.mu.Lock()
			if _, known := s.times[session.Name]; !known && running(session) {
				s.times[session.Name] = time.Since(created[session.Name]).Round(time.Millisecond)
			}
			s.mu.Unlock()
		}
	}()
	return s
}

// count returns how many sessions are measured.
func (s *stopwatch) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.times)
}

// stop ends it, and returns the times, the shortest first.
func (s *stopwatch) stop() []time.Duration {
	s.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Values(s.times))
}
