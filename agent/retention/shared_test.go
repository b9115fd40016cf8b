package retention_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/retention"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// startShared runs the reconcilers, whose cache shows Pods or not.
func startShared(t *testing.T, mgr ctrl.Manager) {
	t.Helper()
	g := NewWithT(t)
	options := retention.Options{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}, UnusedFor: time.Second}
	g.Expect(retention.SetupWithManager(mgr, options)).To(Succeed())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() { stop(); g.Expect(<-ended).To(Succeed()) })
}

// withoutPods is a cache that does not show them yet.
type withoutPods struct{ client.Client }

func (w withoutPods) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, pods := list.(*corev1.PodList); pods {
		return nil
	}
	return w.Client.List(ctx, list, opts...)
}

func testSharedObjects(t *testing.T, member *harness.ControlPlane, admin client.Client) {
	t.Helper()
	g := NewWithT(t)
	create := func(o client.Object) { g.Expect(admin.Create(t.Context(), o)).To(Succeed()) }
	// Each desktop has a policy of its own, by its port.
	desktop := func(name string, port int32) (*corev1.Pod, *networkingv1.NetworkPolicy) {
		a := assignmentWith(name)
		a.Name, a.Spec.Desktop.Port, a.UID = name, port, "uid"
		a.Spec.Desktop.Home = api.AssignedHome{}
		pod, policy := render.Pod(a), render.NetworkPolicy(a, render.Network{})
		pod.OwnerReferences, pod.Finalizers = nil, nil
		render.Isolate(pod, policy)
		create(policy)
		return pod, policy
	}
	marked := func(o client.Object) func() (bool, error) {
		return func() (bool, error) {
			err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), o)
			return o.GetAnnotations()[api.AnnotationLastUse] != "", err
		}
	}
	there := func(o client.Object) func() error {
		return func() error { return admin.Get(t.Context(), client.ObjectKeyFromObject(o), o) }
	}
	// manager caches what the agent's does.
	manager := func() ctrl.Manager {
		mgr, err := ctrl.NewManager(member.Config, ctrl.Options{
			Scheme: admin.Scheme(), Metrics: server.Options{BindAddress: "0"},
			Controller: config.Controller{SkipNameValidation: ptr.To(true)}, // of other tests in this process
		})
		g.Expect(err).NotTo(HaveOccurred())
		return mgr
	}

	t.Run("are deleted once no Pod uses them for a while, and not before", func(t *testing.T) {
		g := NewWithT(t)
		pod, used := desktop("used", 6080)
		create(pod)
		_, unused := desktop("unused", 6081)
		budget := render.DisruptionBudget(namespace)
		create(budget)
		others := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "others"}}
		create(others)
		startShared(t, manager())
		g.Eventually(there(unused)).WithTimeout(20 * time.Second).ShouldNot(Succeed())
		g.Consistently(func(g Gomega) {
			for _, o := range []client.Object{used, budget, others} {
				g.Expect(marked(o)()).To(BeFalse(), o.GetName())
			}
		}).WithTimeout(2 * time.Second).Should(Succeed())
		g.Expect(admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(Succeed())
		for _, o := range []client.Object{used, budget} {
			g.Eventually(there(o)).WithTimeout(20 * time.Second).ShouldNot(Succeed())
		}
		g.Expect(there(others)()).To(Succeed())
	})

	// reconciled returns a reconciler's passes over a policy, each after a time.
	reconciled := func(cached client.Client, policy client.Object) func(after time.Duration) {
		clock := &memberClock{wall: time.Now(), read: map[time.Time]time.Duration{}}
		r := retention.NetworkPolicies(retention.Options{Client: cached, Live: admin, Clock: clock, UnusedFor: time.Minute})
		return func(after time.Duration) {
			clock.pass(after)
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(policy)})
			g.Expect(err).NotTo(HaveOccurred())
		}
	}

	t.Run("are marked when they were unused for a while, and deleted when they were marked as long", func(t *testing.T) {
		g := NewWithT(t)
		_, policy := desktop("fresh", 6084)
		pass := reconciled(admin, policy)
		pass(0)
		g.Expect(marked(policy)()).To(BeFalse(), "the Pod that it was created for does not exist yet")
		pass(time.Minute)
		g.Expect(marked(policy)()).To(BeTrue())
		pass(0)
		g.Expect(there(policy)()).To(Succeed())
		pass(time.Minute)
		g.Expect(there(policy)()).NotTo(Succeed())
	})

	t.Run("are kept if a mark is removed", func(t *testing.T) {
		g := NewWithT(t)
		_, policy := desktop("claimed", 6083)
		pass := reconciled(admin, policy)
		pass(0)
		pass(time.Minute)
		pass(0)
		g.Expect(marked(policy)()).To(BeTrue())
		policy.Annotations = nil
		g.Expect(admin.Update(t.Context(), policy)).To(Succeed())
		pass(time.Minute)
		g.Expect(there(policy)()).To(Succeed())
	})

	t.Run("are kept if the API server has a Pod that the cache does not show", func(t *testing.T) {
		g := NewWithT(t)
		pod, policy := desktop("hidden", 6082)
		create(pod)
		pass := reconciled(withoutPods{admin}, policy)
		pass(0)
		pass(time.Minute)
		g.Expect(marked(policy)()).To(BeTrue())
		pass(0)
		pass(time.Minute)
		g.Expect(there(policy)()).To(Succeed())
	})
}
