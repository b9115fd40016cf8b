package elastic

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

const (
	// settling is the time after which the writes that follow the last change have ended: the slots of
	// a member's status, and the hub's term, which is stored within 10 s each.
	settling = 25 * time.Second
	// idleTime is how long the idle fleet is watched.
	idleTime = time.Minute
)

var _ = Describe("An idle fleet with node groups", Label(long), func() {
	It("writes leases only", func(ctx SpecContext) {
		start(ctx, growing(eu, pool("desktops")), growing(us, pool("desktops")))
		declare(ctx, eu,
			v1alpha1.NodeGroup{Name: "desktops", KarpenterNodePool: "desktops", MaxNodes: ptr.To[int32](2)},
			v1alpha1.NodeGroup{Name: "declared", MaxNodes: ptr.To[int32](4), Node: apart("declared")},
			v1alpha1.NodeGroup{Name: "scaled", ClusterAutoscalerGroup: "asg-1", Node: apart("scaled")},
			v1alpha1.NodeGroup{Name: "missing", KarpenterNodePool: "missing", MaxNodes: ptr.To[int32](1)})
		declare(ctx, us, desktops(1))
		template(ctx, "browser", "5")
		createAll(ctx, 12, "idle", "browser") // three fit on a node of 15.9 cores
		Eventually(ctx, counted(running)).Should(Equal(9))
		Eventually(ctx, counted(isPending("node group desktops has"))).Should(Equal(3))
		Eventually(ctx, groupOf(eu, "desktops")).Should(Equal("Full: 2 nodes, 0 provisioning, 0 growable"))
		Eventually(ctx, groupOf(eu, "declared")).Should(HavePrefix("Available: "))
		Eventually(ctx, groupOf(eu, "scaled")).Should(HavePrefix("Unknown: "))
		Eventually(ctx, groupOf(eu, "missing")).Should(HavePrefix("Unknown: "))

		pause(ctx, settling)
		marks := map[*harness.ControlPlane]int64{}
		planes := []*harness.ControlPlane{fleet.Hub.ControlPlane, fleet.Member(eu).ControlPlane, fleet.Member(us).ControlPlane}
		for _, cp := range planes {
			mark, err := harness.AuditMark(cp.AuditLog())
			Expect(err).NotTo(HaveOccurred())
			marks[cp] = mark
		}
		pause(ctx, idleTime)
		for _, cp := range planes {
			options := harness.CountOptions{Offset: marks[cp], Users: []string{harness.HubUser, harness.AgentUser}, Events: true}
			Expect(harness.CountWrites(cp.AuditLog(), options)).To(BeEmpty(), cp.Name)
			options.Leases = true
			Expect(harness.CountWrites(cp.AuditLog(), options)).NotTo(BeEmpty(), "the audit log of %s has no lease: it was not read", cp.Name)
		}
	}, NodeTimeout(specTimeout))
})

// apart is the shape of nodes that no session may use.
func apart(pool string) v1alpha1.NodeShape {
	shape := standard16()
	shape.Labels = map[string]string{"pool": pool}
	shape.Taints = []corev1.Taint{{Key: "pool", Value: pool, Effect: corev1.TaintEffectNoSchedule}}
	return shape
}

// pause leaves the fleet alone.
func pause(ctx SpecContext, d time.Duration) {
	GinkgoHelper()
	select {
	case <-ctx.Done():
		Fail("the spec ended while the fleet was idle: " + ctx.Err().Error())
	case <-time.After(d):
	}
}
