package integration

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// traced returns the environment with which hub and agents export the spans of every session soon.
func traced(c *collector) []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + c.address, "OTEL_BSP_SCHEDULE_DELAY=100"}
}

var _ = Describe("The trace of a session", func() {
	It("is one, over hub, link and agent, and over a change of the hub's leader", func(ctx SpecContext) {
		member := memberNamed("us-east")
		leader, other := leaderAndOther(ctx)
		awaitRunning(ctx, create(ctx, newSession("traced-before", inRegion(member.Name)))) // the member has the template
		Expect(member.Agent.Pause()).To(Succeed())
		DeferCleanup(member.Agent.Resume)
		s := create(ctx, newSession("traced", inRegion(member.Name)))
		Eventually(ctx, reason(s, v1alpha1.ConditionScheduled)).Should(Equal(v1alpha1.ReasonPlaced))
		id := tracing.LifecycleID(string(s.UID), 1, 1).String()
		Eventually(ctx, func() []span { return spans.trace(id) }).Should(ContainElement(HaveField("Name", "place")),
			"a leader that stops before its write is answered has not placed it")
		Expect(leader.Stop()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(restartHub()).To(Succeed())
			Expect(leader.WaitReady(ctx)).To(Succeed())
		})
		Eventually(ctx, labeled).Should(Equal([]string{other.PodName}))
		Expect(member.Agent.Resume()).To(Succeed())
		s = awaitRunning(ctx, s)
		Expect(s.Status.Epoch).To(BeEquivalentTo(1))

		trace := func() []string { lines, _ := tree(spans.trace(id)); return lines }
		Eventually(ctx, trace).Should(ContainElements(
			"vdi-hub session<", "vdi-hub place<session", "vdi-hub assign<session", "vdi-hub link.send<assign", "vdi-hub mirror<session",
			"vdi-agent receive<session", "vdi-agent store<receive", "vdi-agent apply<session", "vdi-agent report<session",
			"vdi-agent pod.schedule<session", "vdi-agent pod.start<session", "vdi-agent pod.ready<session",
		))
		_, orphans := tree(spans.trace(id))
		Expect(orphans).To(BeEmpty(), "%v", trace())
		wrote := map[string][]string{}
		var applied []string
		for _, s := range spans.trace(id) {
			wrote[s.Name] = append(wrote[s.Name], s.instance+s.cluster)
			if s.Name == "apply" {
				applied = append(applied, attribute(s, "vdi.action")+" "+attribute(s, "vdi.kind"))
			}
			Expect(fmt.Sprint(s.Attributes)).NotTo(ContainSubstring(newSession("").Spec.User), "no span names a user")
		}
		Expect(wrote["place"]).To(Equal([]string{leader.PodName}), "the first leader placed it")
		Expect(wrote["session"]).To(Equal([]string{other.PodName}), "once, by the leader that saw it run")
		Expect(wrote["pod.ready"]).To(Equal([]string{member.Agent.PodName + member.Name}), "once")
		slices.Sort(applied)
		Expect(applied).To(ContainElements("create Pod", "create Service", "create Ingress"))
		Expect(slices.Compact(applied)).To(HaveLen(len(applied)), "a span for each child that was made")

		held := &v1alpha1.SessionAssignment{}
		key := client.ObjectKey{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}
		Expect(clientOf(member.ControlPlane).Get(ctx, key, held)).To(Succeed())
		Expect(held.Annotations[v1alpha1.AnnotationTraceparent]).To(ContainSubstring(id), "so that the agent's next process goes on with it")

		By("ending and running again without a collector")
		spans.stop()
		change(ctx, s, suspended)
		Eventually(ctx, reason(s, v1alpha1.ConditionPodReady)).Should(Equal(v1alpha1.ReasonSuspended))
		change(ctx, s, resumed)
		s = awaitRunning(ctx, s)
		Expect(spans.again()).To(Succeed())
		Expect(hub.Delete(ctx, s)).To(Succeed())
		awaitGone(ctx, s)
		second := func(context.Context) []string {
			lines, _ := tree(spans.trace(tracing.LifecycleID(string(s.UID), 1, 2).String()))
			return lines
		}
		Eventually(ctx, second).Should(ContainElements(
			HavePrefix("vdi-hub terminate<"), HavePrefix("vdi-agent stop<"), HavePrefix("vdi-agent apply<")), "a run that is resumed is a trace of its own")
	})
})
