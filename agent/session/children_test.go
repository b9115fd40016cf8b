package session_test

import (
	"context"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// child is a kind of children, and an edit of one.
type child struct {
	of func(*api.SessionAssignment) client.Object
	// spoil makes drift; drifted reports whether there is any.
	spoil   func(client.Object)
	drifted func(client.Object) bool
	// condition that reports a name conflict.
	condition string
}

// children by kind. A claim is identified by its labels and has no owner: see homes_test.go and
// trouble_test.go.
var children = map[string]child{
	"Pod": {
		of:    func(a *api.SessionAssignment) client.Object { return podOf(a) },
		spoil: func(o client.Object) { o.(*corev1.Pod).Spec.Containers[0].Image = "registry.example.com/evil:1" },
		drifted: func(o client.Object) bool {
			return o.(*corev1.Pod).Spec.Containers[0].Image == "registry.example.com/evil:1"
		},
		condition: api.ConditionPodReady,
	},
	"Service": {
		of:      func(a *api.SessionAssignment) client.Object { return serviceOf(a) },
		spoil:   func(o client.Object) { o.(*corev1.Service).Spec.Selector = map[string]string{"app": "evil"} },
		drifted: func(o client.Object) bool { return o.(*corev1.Service).Spec.Selector["app"] == "evil" },

		condition: api.ConditionEndpointReady,
	},
	"Ingress": {
		of:      func(a *api.SessionAssignment) client.Object { return ingressOf(a) },
		spoil:   func(o client.Object) { o.(*networkingv1.Ingress).Spec.Rules[0].Host = "evil.example.com" },
		drifted: func(o client.Object) bool { return o.(*networkingv1.Ingress).Spec.Rules[0].Host == "evil.example.com" },

		condition: api.ConditionEndpointReady,
	},
	"ConfigMap": {
		of:      func(a *api.SessionAssignment) client.Object { return configOf(a) },
		spoil:   func(o client.Object) { o.(*corev1.ConfigMap).Data["policy.json"] = "evil" },
		drifted: func(o client.Object) bool { return o.(*corev1.ConfigMap).Data["policy.json"] == "evil" },

		condition: api.ConditionPodReady,
	},
	"NetworkPolicy": {
		of: func(a *api.SessionAssignment) client.Object { return policyOf(a) },
		spoil: func(o client.Object) {
			o.(*networkingv1.NetworkPolicy).Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
		},
		drifted: func(o client.Object) bool {
			rules := o.(*networkingv1.NetworkPolicy).Spec.Ingress
			return len(rules) == 1 && len(rules[0].From) == 0
		},
		condition: api.ConditionEndpointReady,
	},
	"PodDisruptionBudget": {
		of: func(a *api.SessionAssignment) client.Object { return budgetOf(a) },
		spoil: func(o client.Object) {
			o.(*policyv1.PodDisruptionBudget).Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "evil"}}
		},
		drifted: func(o client.Object) bool {
			return o.(*policyv1.PodDisruptionBudget).Spec.Selector.MatchLabels["app"] == "evil"
		},
		condition: api.ConditionPodReady,
	},
}

var _ = Describe("A child", func() {
	for _, kind := range slices.Sorted(maps.Keys(children)) {
		c := children[kind]
		It("of kind "+kind+" is repaired, recreated, and refused where its name is taken", func(ctx SpecContext) {
			expectRepaired(ctx, running(ctx, configured), c)
		}, SpecTimeout(3*time.Minute))
	}

	It("that was made immutable is recreated", func(ctx SpecContext) {
		a := running(ctx, configured)
		uid := get(ctx, configOf(a)).UID
		edit(ctx, configOf(a), func(c *corev1.ConfigMap) { c.Data["policy.json"], c.Immutable = "evil", ptr.To(true) })
		Eventually(ctx, func(g Gomega) {
			config := configOf(a)
			g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(config), config)).To(Succeed())
			g.Expect(config.UID).NotTo(Equal(uid))
			g.Expect(config.Data).To(HaveKeyWithValue("policy.json", "{}"))
		}).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("is removed when it is not wanted any more", func(ctx SpecContext) {
		a := running(ctx, configured)
		get(ctx, configOf(a))
		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.Desktop.Files = nil })
		expectGone(ctx, configOf(a))
		Eventually(ctx, func() *api.AssignedConfig { return get(ctx, a).Status.Config }).Should(BeNil())
		By("being wanted again")
		edit(ctx, a, configured)
		Eventually(ctx, func() error { return admin.Get(ctx, client.ObjectKeyFromObject(a), configOf(a)) }).Should(Succeed())
	}, SpecTimeout(3*time.Minute))

	It("follows the assignment, and the status shows what the desktop has", func(ctx SpecContext) {
		a := running(ctx, configured)
		Expect(a.Status.Config).NotTo(BeNil())
		Expect(a.Status.Config.Name).To(Equal(a.Name))
		before, pod := a.Status.Config.Hash, get(ctx, podOf(a)).UID
		edit(ctx, a, func(a *api.SessionAssignment) { a.Spec.Desktop.Files[0].Content = `{"a":1}` })
		Eventually(ctx, func(g Gomega) {
			g.Expect(get(ctx, configOf(a)).Data).To(HaveKeyWithValue("policy.json", `{"a":1}`))
			g.Expect(get(ctx, a).Status.Config.Hash).NotTo(Equal(before))
		}).Should(Succeed())
		Expect(get(ctx, podOf(a)).UID).To(Equal(pod), "a file of the config changes under a running desktop")
	}, SpecTimeout(3*time.Minute))
})

// expectRepaired makes every kind of drift.
func expectRepaired(ctx context.Context, a *api.SessionAssignment, c child) {
	GinkgoHelper()
	By("editing it")
	uid := get(ctx, c.of(a)).GetUID()
	edit(ctx, c.of(a), c.spoil)
	Eventually(ctx, func(g Gomega) {
		o := get(ctx, c.of(a))
		g.Expect(c.drifted(o)).To(BeFalse())
		g.Expect(o.GetUID()).To(Equal(uid))
	}).Should(Succeed())

	By("deleting it")
	Expect(admin.Delete(ctx, c.of(a))).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		o := c.of(a)
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
		g.Expect(o.GetUID()).NotTo(Equal(uid))
	}).Should(Succeed())
	expectReady(ctx, a)

	By("taking it over")
	taker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, GenerateName: "taker-"}}
	Expect(admin.Create(ctx, taker)).To(Succeed())
	edit(ctx, c.of(a), func(o client.Object) {
		c.spoil(o)
		o.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: taker.Name, UID: taker.UID, Controller: ptr.To(true)}})
	})
	expectCondition(ctx, a, c.condition, metav1.ConditionFalse, api.ReasonConflict, "belongs to ConfigMap "+taker.Name)
	Consistently(ctx, func() bool { return c.drifted(get(ctx, c.of(a))) }).WithTimeout(time.Second).Should(BeTrue())

	By("releasing it")
	Expect(admin.Delete(ctx, c.of(a))).To(Succeed())
	Expect(admin.Delete(ctx, taker)).To(Succeed())
	expectReady(ctx, a)
	Expect(c.drifted(get(ctx, c.of(a)))).To(BeFalse())
}
