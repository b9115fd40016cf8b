package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// scenario is the state of some of 200 sessions when their member's API server crashes.
type scenario struct {
	name     string
	count    int
	template string
	change   func(*v1alpha1.VDISession)
	// before is the phase that is awaited before the crash; "" for none.
	before v1alpha1.SessionPhase
	// during is done to each session while the API server is down.
	during func(context.Context, *v1alpha1.VDISession)
	// after is the phase that the sessions reach; "" if they end.
	after v1alpha1.SessionPhase
}

var scenarios = []scenario{
	{name: "runs", count: 60, template: "tiny", before: v1alpha1.PhaseRunning, after: v1alpha1.PhaseRunning},
	{name: "homed", count: 20, template: "tiny-home", before: v1alpha1.PhaseRunning, after: v1alpha1.PhaseRunning},
	{name: "suspended", count: 20, template: "tiny", change: suspended, before: v1alpha1.PhasePending,
		during: asUser(resumed), after: v1alpha1.PhaseRunning},
	{name: "tires", count: 20, template: "tiny", before: v1alpha1.PhaseRunning, during: asUser(suspended), after: v1alpha1.PhasePending},
	{name: "fails", count: 20, template: "tiny-broken", before: v1alpha1.PhaseFailed, after: v1alpha1.PhaseFailed},
	{name: "starts", count: 20, template: "tiny-slow", before: v1alpha1.PhaseCreating, after: v1alpha1.PhaseRunning},
	{name: "ends", count: 20, template: "tiny", before: v1alpha1.PhaseRunning, during: deleted},
	{name: "comes", count: 20, template: "tiny", during: created, after: v1alpha1.PhaseRunning},
}

func asUser(f func(*v1alpha1.VDISession)) func(context.Context, *v1alpha1.VDISession) {
	return func(ctx context.Context, s *v1alpha1.VDISession) { change(ctx, s, f) }
}

func deleted(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	Expect(hub.Delete(ctx, s)).To(Succeed())
}

func created(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	Expect(hub.Create(ctx, s)).To(Succeed())
}

// With OUTAGE=5m in the environment the API server stays down for that long, while its agent keeps
// running and renews.
var _ = Describe("A member's API server that crashes under 200 sessions in every phase", func() {
	It("recovers all of them, and creates nothing twice", func(ctx SpecContext) {
		member := memberNamed("eu-west")
		awaitReady(ctx, member.Name)
		for name, f := range map[string]func(*v1alpha1.TemplateSpec){
			"tiny": func(*v1alpha1.TemplateSpec) {},
			"tiny-home": func(t *v1alpha1.TemplateSpec) {
				t.Home = v1alpha1.TemplateHome{Mode: v1alpha1.HomePerSession, Size: quantity("1Gi")}
			},
			"tiny-broken": func(t *v1alpha1.TemplateSpec) { t.Image = "broken.invalid/desktop:1" },
			"tiny-slow":   func(t *v1alpha1.TemplateSpec) { t.Image = "slow.invalid/desktop:1" },
		} {
			template(ctx, name, func(t *v1alpha1.TemplateSpec) {
				t.Resources.Default = corev1.ResourceList{corev1.ResourceCPU: *quantity("100m"), corev1.ResourceMemory: *quantity("64Mi")}
				f(t)
			})
		}
		born := watchCreations(ctx, member.ControlPlane.Client)
		all := map[string][]*v1alpha1.VDISession{}
		var every []*v1alpha1.VDISession
		for _, l := range scenarios {
			for i := range l.count {
				s := newSession(fmt.Sprintf("%s-%02d", l.name, i), of(l.template), inRegion("eu-west"), user(fmt.Sprintf("%s-%d@example.com", l.name, i)))
				all[l.name] = append(all[l.name], s)
				every = append(every, s)
			}
		}
		DeferCleanup(func(ctx SpecContext) { deleteAll(ctx, every) }, NodeTimeout(3*time.Minute))

		By("creating those that are to be there before")
		var group errgroup.Group
		group.SetLimit(16)
		for _, l := range scenarios {
			for _, s := range all[l.name] {
				if l.before != "" && l.name != "starts" {
					group.Go(func() error { return hub.Create(ctx, s) })
				}
			}
		}
		Expect(group.Wait()).To(Succeed())
		await := func(name string, sessions []*v1alpha1.VDISession, want v1alpha1.SessionPhase) {
			GinkgoHelper()
			Eventually(ctx, notIn(want, sessions)).WithTimeout(2*time.Minute).WithPolling(500*time.Millisecond).Should(BeEmpty(), name)
		}
		for _, l := range scenarios {
			if l.change != nil {
				await(l.name, all[l.name], v1alpha1.PhaseRunning)
				for _, s := range all[l.name] {
					change(ctx, s, l.change)
				}
			}
		}
		for _, l := range scenarios {
			if l.before != "" && l.name != "starts" {
				await(l.name, all[l.name], l.before)
			}
		}
		// A suspended session's desktop may not have stopped yet.
		Eventually(ctx, func(ctx context.Context) (int, error) {
			idle := 0
			for _, s := range all["suspended"] {
				if err := hub.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
					return 0, err
				}
				if s.Status.Placement != nil && s.Status.Placement.Idle {
					idle++
				}
			}
			return idle, nil
		}).Should(Equal(len(all["suspended"])))
		for _, s := range all["starts"] {
			created(ctx, s)
		}
		await("starts", all["starts"], v1alpha1.PhaseCreating)

		By("killing the API server, and continuing as users do")
		Expect(member.ControlPlane.APIServer.Kill()).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			if !member.ControlPlane.APIServer.Running() {
				Expect(member.ControlPlane.APIServer.Restart()).To(Succeed())
			}
			Expect(member.ControlPlane.WaitAPI(ctx)).To(Succeed())
		})
		for _, l := range scenarios {
			for _, s := range all[l.name] {
				if l.during != nil {
					l.during(ctx, s)
				}
			}
		}

		if outage, err := time.ParseDuration(os.Getenv("OUTAGE")); err == nil {
			By("keeping it down for " + outage.String())
			Consistently(ctx, memberReady("eu-west")).WithTimeout(outage).WithPolling(time.Second).Should(Equal(v1alpha1.ReasonConnected))
		}

		By("starting it again")
		Expect(member.ControlPlane.APIServer.Restart()).To(Succeed())
		Expect(member.ControlPlane.WaitAPI(ctx)).To(Succeed())
		// Unlike a kubelet, KWOK abandons a step that has failed for minutes.
		Expect(member.ControlPlane.RestartKWOK(ctx)).To(Succeed())
		for _, l := range scenarios {
			if l.after == "" {
				for _, s := range all[l.name] {
					awaitGone(ctx, s)
				}
				continue
			}
			await(l.name, all[l.name], l.after)
		}
		for _, s := range every {
			runs := 1
			if strings.HasPrefix(s.Name, "suspended") {
				runs = 2 // once before it was suspended, once since
			}
			// The test's own watch may be the last to recover.
			Eventually(func() int { return born.of(s.UID)["Pod"] }).WithTimeout(time.Minute).Should(Or(BeZero(), BeNumerically(">=", runs)), "Pods of %s", s.Name)
			for kind, times := range born.of(s.UID) {
				if kind == "Pod" {
					Expect(times).To(Equal(runs), "Pods of %s", s.Name)
				} else {
					Expect(times).To(Equal(1), "%s of %s", kind, s.Name)
				}
			}
		}
	}, NodeTimeout(12*time.Minute))
})

// births records the objects of each kind that a session ever had in a member.
type births struct {
	mu   sync.Mutex
	seen map[types.UID]map[string]map[types.UID]bool
}

func (b *births) of(session types.UID) map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]int{}
	for kind, objects := range b.seen[session] {
		out[kind] = len(objects)
	}
	return out
}

func (b *births) note(kind string) cache.ResourceEventHandlerFuncs {
	see := func(o any) {
		object, ok := o.(metav1.Object)
		if !ok {
			return
		}
		session := types.UID(object.GetLabels()[v1alpha1.LabelSessionUID])
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.seen[session] == nil {
			b.seen[session] = map[string]map[types.UID]bool{}
		}
		if b.seen[session][kind] == nil {
			b.seen[session][kind] = map[types.UID]bool{}
		}
		b.seen[session][kind][object.GetUID()] = true
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }}
}

// watchCreations watches the fleet's objects in a member until the spec ends.
func watchCreations(ctx SpecContext, kube kubernetes.Interface) *births {
	GinkgoHelper()
	b := &births{seen: map[types.UID]map[string]map[types.UID]bool{}}
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = v1alpha1.LabelManagedBy + "=" + v1alpha1.ManagedBy }))
	for kind, informer := range map[string]cache.SharedIndexInformer{
		"Pod":     factory.Core().V1().Pods().Informer(),
		"Service": factory.Core().V1().Services().Informer(),
		"Secret":  factory.Core().V1().Secrets().Informer(),
		"Claim":   factory.Core().V1().PersistentVolumeClaims().Informer(),
		"Ingress": factory.Networking().V1().Ingresses().Informer(),
	} {
		_, err := informer.AddEventHandler(b.note(kind))
		Expect(err).NotTo(HaveOccurred())
	}
	stop := make(chan struct{})
	factory.Start(stop)
	DeferCleanup(func() {
		close(stop)
		factory.Shutdown()
	})
	factory.WaitForCacheSync(ctx.Done())
	return b
}

// deleteAll deletes sessions, and waits until they are gone.
func deleteAll(ctx context.Context, sessions []*v1alpha1.VDISession) {
	GinkgoHelper()
	for _, s := range sessions {
		Expect(client.IgnoreNotFound(hub.Delete(ctx, s))).To(Succeed())
	}
	for _, s := range sessions {
		awaitGone(ctx, s)
	}
}
