package placement

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness/provisioner"
)

// need is something that a template requires of a member and that a member may
// lack.
type need struct {
	what, reason string
	// name that the template requires.
	name     string
	template func(*v1alpha1.TemplateSpec)
	// add adds it to a member, and remove removes it.
	add, remove func(ctx context.Context, member string, p *pool)
}

const special = "special"

// object returns the add and remove of a need that is met where an object exists.
func object(make func() client.Object) (add, remove func(ctx context.Context, member string, p *pool)) {
	add = func(ctx context.Context, member string, _ *pool) {
		GinkgoHelper()
		Expect(client.IgnoreAlreadyExists(clients[member].Create(ctx, make()))).To(Succeed())
	}
	remove = func(ctx context.Context, member string, _ *pool) {
		GinkgoHelper()
		Expect(client.IgnoreNotFound(clients[member].Delete(ctx, make()))).To(Succeed())
	}
	return add, remove
}

// label returns a function that sets the label of the pool's nodes to a JSON value.
func label(value string) func(ctx context.Context, member string, p *pool) {
	return func(ctx context.Context, member string, p *pool) {
		GinkgoHelper()
		for _, name := range p.nodes[member] {
			node := fleet.Member(member).ControlPlane.Client.CoreV1().Nodes()
			patch := []byte(`{"metadata":{"labels":{"` + special + `":` + value + `}}}`)
			_, err := node.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	}
}

func needs() []need {
	meta := metav1.ObjectMeta{Name: special}
	// The harness provisions volumes only of its own classes, which all members have.
	const class = provisioner.FixedStorageClass
	storage := need{what: "storage", reason: v1alpha1.UnavailableStorageClass, name: class, template: func(t *v1alpha1.TemplateSpec) {
		t.Home = v1alpha1.TemplateHome{Mode: v1alpha1.HomePerSession, Size: quantity("1Gi"), StorageClassName: class}
	}}
	storage.add, storage.remove = object(func() client.Object {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: provisioner.Name}
	})
	ingress := need{what: "ingress", reason: v1alpha1.UnavailableIngressClass, name: special, template: func(t *v1alpha1.TemplateSpec) { t.IngressClassName = special }}
	ingress.add, ingress.remove = object(func() client.Object {
		return &networkingv1.IngressClass{ObjectMeta: meta, Spec: networkingv1.IngressClassSpec{Controller: "example.com/ingress"}}
	})
	runtime := need{what: "runtime", reason: v1alpha1.UnavailableRuntimeClass, name: special, template: func(t *v1alpha1.TemplateSpec) { t.RuntimeClassName = special }}
	runtime.add, runtime.remove = object(func() client.Object { return &nodev1.RuntimeClass{ObjectMeta: meta, Handler: special} })
	priority := need{what: "priority", reason: v1alpha1.UnavailablePriorityClass, name: special, template: func(t *v1alpha1.TemplateSpec) { t.PriorityClassName = special }}
	priority.add, priority.remove = object(func() client.Object { return &schedulingv1.PriorityClass{ObjectMeta: meta} })
	nodes := need{what: "node", reason: v1alpha1.UnavailableNode, name: special, template: func(t *v1alpha1.TemplateSpec) { t.NodeSelector[special] = "yes" }}
	nodes.add, nodes.remove = label(`"yes"`), label("null")
	return []need{storage, ingress, runtime, priority, nodes}
}

var _ = Describe("What a template needs of a member", func() {
	It("is named where it is missing, used where it is added, and no longer used where it is removed", func(ctx SpecContext) {
		p := newPool("needs")
		p.add(ctx, eu, pieces("5500m", "500m")...)
		p.add(ctx, us, pieces("2500m", "3500m")...)
		p.churn()
		all := needs()
		names := func(n need) string { return "needs-" + n.what }
		waiting := map[string]*v1alpha1.VDISession{}
		for _, n := range all {
			p.template(ctx, names(n), n.template)
			for _, m := range fleet.Members {
				n.remove(ctx, m.Name, p)
				back := n.remove
				if n.what == "storage" {
					back = n.add
				}
				DeferCleanup(func(ctx SpecContext) { back(ctx, m.Name, p) })
			}
		}
		for _, n := range all {
			for _, m := range fleet.Members {
				Eventually(ctx, slots(m.Name, names(n))).Should(BeZero(), n.what)
			}
			waiting[n.what] = create(ctx, session(n.what+"-1", names(n)))
		}
		for _, n := range all {
			expectPending(ctx, waiting[n.what], "3 can't run template "+names(n)+", "+n.reason+" (")
			Expect(why(waiting[n.what])(ctx)).To(ContainSubstring(n.name))
		}

		By("adding it to one member")
		for _, n := range all {
			n.add(ctx, eu, p)
		}
		for _, n := range all {
			Eventually(ctx, member(waiting[n.what])).WithTimeout(byEvent).Should(Equal(eu), n.what)
		}

		By("adding it to another, and removing it from the first")
		for _, n := range all {
			n.add(ctx, us, p)
			n.remove(ctx, eu, p)
		}
		for _, n := range all {
			Eventually(ctx, slots(eu, names(n))).WithTimeout(byEvent).Should(BeZero(), n.what)
			Eventually(ctx, slots(us, names(n))).WithTimeout(byEvent).ShouldNot(BeZero(), n.what)
			next := create(ctx, session(n.what+"-2", names(n), near(eu)))
			Eventually(ctx, member(next)).Should(Equal(us), n.what)
		}
		for _, n := range all {
			Expect(member(waiting[n.what])(ctx)).To(Equal(eu), "one that runs keeps running: %s", n.what)
		}
	}, SpecTimeout(specTimeout))
})
