package session_test

import (
	"context"
	"fmt"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var sessions atomic.Int64

// assignment is a browser session of its own for each test.
func assignment(change ...func(*api.SessionAssignment)) *api.SessionAssignment {
	name := fmt.Sprintf("s%d", sessions.Add(1))
	uid := types.UID(name + "-uid")
	a := &api.SessionAssignment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  namespace,
			Name:       api.AssignmentName(name, uid),
			Finalizers: []string{api.AssignmentFinalizer},
			Labels:     map[string]string{api.LabelManagedBy: api.ManagedBy, api.LabelSessionUID: string(uid)},
		},
		Spec: api.SessionAssignmentSpec{
			Session:  api.SessionReference{Namespace: namespace, Name: name, UID: uid},
			Epoch:    1,
			User:     "jane@example.com",
			Template: "browser", TemplateRevision: "r1",
			RunState: api.ModeRunning,
			Desktop: api.Desktop{
				Image: "registry.example.com/browser:1",
				Port:  6901,
				Resources: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("100m"),
					corev1.ResourceMemory: resource.MustParse("128Mi"),
				},
			},
		},
	}
	a.Spec.Host = a.Name + ".eu.example.com"
	for _, c := range change {
		c(a)
	}
	return a
}

func home(mode api.HomeMode) func(*api.SessionAssignment) {
	return func(a *api.SessionAssignment) {
		claim := a.Name
		if mode == api.HomePerUser {
			claim = api.HomeName(namespace, a.Spec.User, a.Name)
		}
		a.Spec.Desktop.Home = api.AssignedHome{Mode: mode, ClaimName: claim}
	}
}

// configured has variables and a file.
func configured(a *api.SessionAssignment) {
	a.Spec.Desktop.Env = []api.EnvVar{{Name: "LANG", Value: "C.UTF-8"}}
	a.Spec.Desktop.Files = []api.ConfigFile{{Name: "policy.json", Content: "{}"}}
}

func suspended(a *api.SessionAssignment) { a.Spec.RunState = api.ModeSuspended }

func image(name string) func(*api.SessionAssignment) {
	return func(a *api.SessionAssignment) { a.Spec.Desktop.Image = name }
}

// assigned creates the assignment, and deletes it after the test.
func assigned(ctx context.Context, change ...func(*api.SessionAssignment)) *api.SessionAssignment {
	GinkgoHelper()
	a := assignment(change...)
	Expect(admin.Create(ctx, a)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, a))).To(Succeed())
		expectGone(ctx, a)
	})
	return a
}

// running creates the assignment and waits until it is ready.
func running(ctx context.Context, change ...func(*api.SessionAssignment)) *api.SessionAssignment {
	GinkgoHelper()
	a := assigned(ctx, change...)
	expectReady(ctx, a)
	return a
}

func expectReady(ctx context.Context, a *api.SessionAssignment) {
	GinkgoHelper()
	for _, kind := range []string{api.ConditionHomeReady, api.ConditionPodReady, api.ConditionEndpointReady} {
		expectCondition(ctx, a, kind, metav1.ConditionTrue, "", "")
	}
}

// expectCondition waits for a condition; an empty reason or message matches
// any, another message is a part of it.
func expectCondition(ctx context.Context, a *api.SessionAssignment, kind string, status metav1.ConditionStatus, reason, message string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(a), a)).To(Succeed())
		c := meta.FindStatusCondition(a.Status.Conditions, kind)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.Status).To(Equal(status), "%s: %s", c.Reason, c.Message)
		if reason != "" {
			g.Expect(c.Reason).To(Equal(reason), c.Message)
		}
		g.Expect(c.Message).To(ContainSubstring(message))
	}).Should(Succeed())
}

// expectGone waits until the object is gone.
func expectGone(ctx context.Context, o client.Object) {
	GinkgoHelper()
	Eventually(ctx, func() bool {
		return apierrors.IsNotFound(admin.Get(ctx, client.ObjectKeyFromObject(o), o))
	}).Should(BeTrue(), "%T %s is still there", o, o.GetName())
}

// edit changes an object, as a person with kubectl would.
func edit[T client.Object](ctx context.Context, o T, change func(T)) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
		change(o)
		g.Expect(admin.Update(ctx, o)).To(Succeed())
	}).Should(Succeed())
}

func podOf(a *api.SessionAssignment) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
}

func serviceOf(a *api.SessionAssignment) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
}

func ingressOf(a *api.SessionAssignment) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
}

func configOf(a *api.SessionAssignment) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
}

func policyOf(a *api.SessionAssignment) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: render.NetworkPolicy(a, render.Network{}).Name}}
}

func budgetOf(a *api.SessionAssignment) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: render.DisruptionBudget(a.Namespace).Name}}
}

func routeOf(a *api.SessionAssignment) *gatewayv1.HTTPRoute {
	return &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
}

func claimOf(a *api.SessionAssignment) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Spec.Desktop.Home.ClaimName}}
}

// get reads an object that must be there.
func get[T client.Object](ctx context.Context, o T) T {
	GinkgoHelper()
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
	return o
}
