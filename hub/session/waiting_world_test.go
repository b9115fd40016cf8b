package session_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

// The suite's hub decides on no pending session without an event: each session that
// runs here in the end was requeued by one.

func forUser(user string) func(*api.SessionSpec) { return func(s *api.SessionSpec) { s.User = user } }

func ofPriority(p int32) func(*api.SessionSpec) {
	return func(s *api.SessionSpec) { s.Placement.Priority = p }
}

// offer has an agent report capacity for a number of sessions.
func (a *agent) offer(slots int) {
	GinkgoHelper()
	a.set(func() { a.slots = slots })
	a.send(func(m link.Member) { m.Capacity(a.report()) })
}

func waits(ctx context.Context, sessions ...*api.VDISession) {
	GinkgoHelper()
	for _, s := range sessions {
		Eventually(phase(ctx, s)).Should(HavePrefix("Pending: "))
		Eventually(reason(ctx, s, api.ConditionScheduled)).Should(HavePrefix("False/"))
	}
}

// applied waits until the hub has applied a member's spec.
func applied(ctx context.Context, mc *api.MemberCluster) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		seen := &api.MemberCluster{}
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(mc), seen)).To(Succeed())
		g.Expect(seen.Status.ObservedGeneration).To(Equal(mc.Generation))
	}).Should(Succeed())
}

// runningOf returns the names of the sessions that run.
func runningOf(ctx context.Context, sessions []*api.VDISession) func(Gomega) []string {
	return func(g Gomega) []string {
		var names []string
		for _, s := range sessions {
			if phase(ctx, s)(g) == "Running: " {
				names = append(names, s.Name)
			}
		}
		return names
	}
}

var _ = Describe("Sessions that wait for capacity", func() {
	It("get the last slot by priority", func(ctx SpecContext) {
		template(ctx, "browser")
		eu := join(ctx, "eu", func(a *agent) { a.slots = 0 })
		var all []*api.VDISession
		for i := range 4 {
			all = append(all, create(ctx, "desktops", fmt.Sprint("low", i)))
		}
		waits(ctx, all...)
		high := create(ctx, "desktops", "high", ofPriority(10))
		lowest := create(ctx, "desktops", "lowest", ofPriority(-10))
		all = append(all, high, lowest)
		waits(ctx, all...)
		eu.offer(1)
		Eventually(runningOf(ctx, all)).Should(Equal([]string{"high"}))
		Consistently(runningOf(ctx, all)).Should(Equal([]string{"high"}))
		eu.offer(5)
		Eventually(runningOf(ctx, all)).Should(ConsistOf("high", "low0", "low1", "low2", "low3"))
	})

	It("share capacity between namespaces and users, however many sessions one has", func(ctx SpecContext) {
		template(ctx, "browser")
		eu := join(ctx, "eu", func(a *agent) { a.slots = 0 })
		var all, others []*api.VDISession
		for i := range 12 {
			all = append(all, create(ctx, "desktops", fmt.Sprint("burst", i), forUser("ann@example.com")))
		}
		waits(ctx, all...)
		others = append(others,
			create(ctx, "desktops", "ben", forUser("ben@example.com")),
			create(ctx, "elsewhere", "cleo", forUser("cleo@example.com")))
		waits(ctx, others...)
		all = append(all, others...)
		for slots := 1; slots <= 4; slots++ {
			eu.offer(slots)
			Eventually(runningOf(ctx, all)).Should(HaveLen(slots))
		}
		Expect(runningOf(ctx, all)(NewWithT(GinkgoT()))).To(ContainElements("ben", "cleo"))
	})

	It("are not blocked by those that nothing fits", func(ctx SpecContext) {
		template(ctx, "browser")
		template(ctx, "gpu", func(t *api.TemplateSpec) {
			t.Resources.Default["nvidia.com/gpu"] = *one
		})
		join(ctx, "eu", func(a *agent) { a.slots = 10 })
		var stuck, all []*api.VDISession
		for i := range 20 {
			stuck = append(stuck, create(ctx, "desktops", fmt.Sprint("gpu", i), ofPriority(1000), func(s *api.SessionSpec) { s.Template = "gpu" }))
		}
		waits(ctx, stuck...)
		for i := range 10 {
			all = append(all, create(ctx, "desktops", fmt.Sprint("s", i)))
		}
		Eventually(runningOf(ctx, all)).Should(HaveLen(10))
		Expect(runningOf(ctx, stuck)(NewWithT(GinkgoT()))).To(BeEmpty())
	})
})

var _ = Describe("A pending session is queued again", func() {
	var s *api.VDISession
	var eu *agent
	call := func(what string, change func(SpecContext), prepare func(SpecContext), session ...func(*api.SessionSpec)) {
		It("when "+what, func(ctx SpecContext) {
			template(ctx, "browser")
			eu = join(ctx, "eu", func(a *agent) {
				a.slots = 1
				if what == "a member can run the template" {
					a.lacks = map[string]string{"browser": "NoStorageClass"}
				}
			})
			if prepare != nil {
				prepare(ctx)
			}
			s = create(ctx, "desktops", "s", session...)
			waits(ctx, s)
			Consistently(phase(ctx, s), "300ms").Should(HavePrefix("Pending: "))
			change(ctx)
			running(ctx, s)
		})
	}
	member := func() *api.MemberCluster { return &api.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "eu"}} }
	var filler *api.VDISession
	fill := func(ctx SpecContext) {
		filler, _ = running(ctx, create(ctx, "desktops", "filler", forUser("ben@example.com")))
	}
	var policy *api.PlacementPolicy
	govern := func(ctx SpecContext, change func(*api.PlacementPolicySpec)) {
		policy = createPolicy(ctx, "gold", change)
	}

	call("a member reports capacity", func(SpecContext) { eu.offer(2) }, fill)
	call("another frees its slot", func(ctx SpecContext) { remove(ctx, filler) }, fill)
	call("a member comes", func(ctx SpecContext) { join(ctx, "us") }, fill)
	call("a member is opened again",
		func(ctx SpecContext) {
			mc := member()
			edit(ctx, mc, func() { mc.Spec.Scheduling = api.SchedulingActive })
		},
		func(ctx SpecContext) {
			mc := member()
			edit(ctx, mc, func() { mc.Spec.Scheduling = api.SchedulingCordoned })
			applied(ctx, mc)
		})
	call("a taint is removed",
		func(ctx SpecContext) {
			mc := member()
			edit(ctx, mc, func() { mc.Spec.Taints = nil })
		},
		func(ctx SpecContext) {
			mc := member()
			edit(ctx, mc, func() { mc.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}} })
			applied(ctx, mc)
		})
	call("a member gets the label that it requires",
		func(ctx SpecContext) {
			mc := member()
			edit(ctx, mc, func() { mc.Labels["name"] = "the-one" })
		}, nil, onlyIn("the-one"))
	call("a member is reachable again",
		func(SpecContext) { eu.connect(theHub) },
		func(ctx SpecContext) { eu.disconnect() })
	call("a member can run the template",
		func(SpecContext) {
			eu.set(func() { eu.lacks = nil })
			eu.offer(1)
		}, nil)
	call("its policy is edited",
		func(ctx SpecContext) { edit(ctx, policy, func() { policy.Spec.RequiredRegions = []string{"eu"} }) },
		func(ctx SpecContext) {
			govern(ctx, func(p *api.PlacementPolicySpec) { p.RequiredRegions = []string{"nowhere"} })
		})
	call("its policy's cap counts one less",
		func(ctx SpecContext) { remove(ctx, filler) },
		func(ctx SpecContext) {
			govern(ctx, func(p *api.PlacementPolicySpec) { p.SessionCaps.Total = ptr.To[int32](1) })
			fill(ctx)
			join(ctx, "us")
			eu.offer(1) // the capacity is in the other member
		})
})

var one = resource.NewQuantity(1, resource.DecimalSI)

var _ = Describe("A session that members refuse", func() {
	It("is tried in three of them at once, and then pauses and shows which refused it", func(ctx SpecContext) {
		var refused sync.Map // by epoch: an order may be sent twice
		attempts := func() (n int) {
			refused.Range(func(any, any) bool { n++; return true })
			return n
		}
		accept := make(chan struct{})
		no := func(a *api.SessionAssignment) (string, string) {
			select {
			case <-accept:
				return "", ""
			default:
				refused.Store(a.Spec.Epoch, true)
				return api.RefusedNoCapacity, "no node has capacity"
			}
		}
		template(ctx, "browser")
		for i := range 12 {
			join(ctx, fmt.Sprint("m", i), func(a *agent) { a.refuse = no })
		}
		s := create(ctx, "desktops", "s")
		Eventually(attempts).Should(Equal(3))
		third := time.Now()
		Eventually(phase(ctx, s)).Should(And(HavePrefix("Pending: "), ContainSubstring("refused it: NoCapacity: no node has capacity; 3 or more in a row")))
		Expect(reason(ctx, s, api.ConditionScheduled)(NewWithT(GinkgoT()))).To(Equal("False/Refused"))
		Eventually(attempts).Should(Equal(4), "after a pause it is tried again")
		fourth := time.Now()
		Eventually(attempts).Should(Equal(5))
		Expect(time.Since(fourth)).To(BeNumerically(">", fourth.Sub(third)*5/4), "the pauses grow")
		close(accept)
		running(ctx, s)
	})

	It("is sent to one of them again once that reports capacity", func(ctx SpecContext) {
		var full atomic.Bool
		full.Store(true)
		template(ctx, "browser")
		eu := join(ctx, "eu", func(a *agent) {
			a.refuse = func(*api.SessionAssignment) (string, string) {
				if full.Load() {
					return api.RefusedNoCapacity, "no node has capacity"
				}
				return "", ""
			}
		})
		s := create(ctx, "desktops", "s")
		Eventually(phase(ctx, s)).Should(ContainSubstring("1 refused it recently"))
		full.Store(false)
		eu.offer(5)
		running(ctx, s) // within 20 s: a refusal lasts for 25 where nothing ends it
		Expect(eu.sessions()).To(Equal([]types.UID{s.UID}))
	})
})
