package session_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// burst is how many sessions are created at once.
const burst = 60

var _ = Describe("A burst of sessions", Serial, func() {
	It("costs each no more writes than one alone, and leaves nothing behind", func(ctx SpecContext) {
		var all []*api.SessionAssignment
		for range burst {
			all = append(all, assignment(home(api.HomePerSession)))
		}
		start := time.Now()
		each(ctx, all, func(a *api.SessionAssignment) error { return admin.Create(ctx, a) })
		Eventually(ctx, func(g Gomega) {
			var list api.SessionAssignmentList
			g.Expect(admin.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
			ready := 0
			for i := range list.Items {
				if observe.Ready(list.Items[i].Status) {
					ready++
				}
			}
			g.Expect(ready).To(Equal(burst))
		}).WithTimeout(90 * time.Second).WithPolling(200 * time.Millisecond).Should(Succeed())
		took := time.Since(start)
		AddReportEntry("ready after", took.Round(100*time.Millisecond).String())

		writes := 0
		for _, a := range all {
			writes += len(tally.of(a.Name))
			expectCheap(Default, a.Name, took)
		}
		AddReportEntry("writes a session", float64(writes)/burst)

		each(ctx, all, func(a *api.SessionAssignment) error { return admin.Delete(ctx, a) })
		for _, a := range all {
			expectGone(ctx, a)
			for _, o := range []client.Object{podOf(a), serviceOf(a), ingressOf(a), claimOf(a)} {
				Expect(client.IgnoreNotFound(admin.Get(ctx, client.ObjectKeyFromObject(o), o))).To(Succeed())
				Expect(o.GetUID()).To(BeEmpty(), "%T %s is left", o, o.GetName())
			}
		}
	}, SpecTimeout(3*time.Minute))
})

func each(ctx SpecContext, all []*api.SessionAssignment, do func(*api.SessionAssignment) error) {
	GinkgoHelper()
	var group errgroup.Group
	group.SetLimit(16)
	for _, a := range all {
		group.Go(func() error { return do(a) })
	}
	Expect(group.Wait()).To(Succeed())
	Expect(ctx.Err()).NotTo(HaveOccurred())
}
