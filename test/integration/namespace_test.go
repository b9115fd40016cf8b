package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// The namespace controller deletes the objects of a namespace in no particular order, once its
// Pods are gone. The worst order is tested: the RoleBindings are deleted first.
var _ = Describe("A namespace that is deleted", func() {
	It("of a member ends, and its sessions are placed elsewhere or show why not", func(ctx SpecContext) {
		member := memberNamed("eu-west")
		movable := create(ctx, newSession("movable", in(second), func(s *v1alpha1.VDISession) {
			s.Spec.Placement.PreferredRegions = []string{"eu-west"}
		}))
		bound := create(ctx, newSession("bound", in(second), inRegion("eu-west")))
		for _, s := range []*v1alpha1.VDISession{movable, bound} {
			Expect(awaitRunning(ctx, s).Status.Placement.ClusterName).To(Equal("eu-west"))
		}
		rebuilt(member.ControlPlane.Client, second)

		Expect(member.ControlPlane.Client.RbacV1().RoleBindings(second).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
		Expect(member.ControlPlane.Client.CoreV1().Namespaces().Delete(ctx, second, metav1.DeleteOptions{})).To(Succeed())
		expectNamespaceGone(ctx, member.ControlPlane.Client, second)
		Eventually(ctx, cluster(movable)).ShouldNot(BeElementOf("", "eu-west"))
		awaitRunning(ctx, movable)
		Eventually(ctx, phase(bound)).Should(Equal(v1alpha1.PhasePending))
		Eventually(ctx, message(bound)).Should(ContainSubstring("kubectl vdi admit " + second))
	}, SpecTimeout(4*time.Minute))

	It("of a member ends where sessions have homes or are held", func(ctx SpecContext) {
		member := memberNamed("eu-west")
		homed := create(ctx, newSession("homed", in(second), of("developer"), inRegion("eu-west")))
		held := create(ctx, newSession("held", in(second), inRegion("eu-west"), func(s *v1alpha1.VDISession) {
			s.Spec.Failover.Mode = v1alpha1.FailoverHold
		}))
		awaitRunning(ctx, homed)
		awaitRunning(ctx, held)
		rebuilt(member.ControlPlane.Client, second)
		Expect(member.ControlPlane.Client.CoreV1().Namespaces().Delete(ctx, second, metav1.DeleteOptions{})).To(Succeed())
		expectNamespaceGone(ctx, member.ControlPlane.Client, second)
		for _, s := range []*v1alpha1.VDISession{homed, held} {
			Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhasePending))
			Eventually(ctx, message(s)).Should(ContainSubstring("eu-west"))
		}
	}, SpecTimeout(4*time.Minute))

	It("of the hub ends, and so do its sessions", func(ctx SpecContext) {
		for _, s := range []*v1alpha1.VDISession{
			newSession("placed", in(second)), newSession("homed", in(second), of("developer")), newSession("nowhere", in(second), inRegion("atlantis")),
		} {
			create(ctx, s)
			if s.Name != "nowhere" {
				awaitRunning(ctx, s)
			}
		}
		api := fleet.Hub.ControlPlane.Client
		rebuilt(api, second)
		Expect(api.RbacV1().RoleBindings(second).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
		Expect(api.CoreV1().Namespaces().Delete(ctx, second, metav1.DeleteOptions{})).To(Succeed())
		expectNamespaceGone(ctx, api, second)
	}, SpecTimeout(4*time.Minute))
})

func cluster(s *v1alpha1.VDISession) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		out, err := get(ctx, s)
		if err != nil || out.Status.Placement == nil {
			return "", err
		}
		return out.Status.Placement.ClusterName, nil
	}
}

func expectNamespaceGone(ctx context.Context, api kubernetes.Interface, name string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (*corev1.Namespace, error) {
		namespace, err := api.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return namespace, err
	}).Should(BeNil(), "the namespace is still there")
}

// rebuilt creates a namespace again after the spec, as it was, with its RoleBindings.
func rebuilt(api kubernetes.Interface, name string) {
	GinkgoHelper()
	ctx := context.Background()
	namespace, err := api.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	bindings, err := api.RbacV1().RoleBindings(name).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		expectNamespaceGone(ctx, api, name)
		again := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: namespace.Labels}}
		_, err := api.CoreV1().Namespaces().Create(ctx, again, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		for _, b := range bindings.Items {
			again := &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: b.Name, Labels: b.Labels}, RoleRef: b.RoleRef, Subjects: b.Subjects,
			}
			_, err := api.RbacV1().RoleBindings(name).Create(ctx, again, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
	}, NodeTimeout(time.Minute))
}
