package integration

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

var _ = Describe("A session", specs.Smoke, func() {
	It("runs in a member, and its URL is the host of its Ingress there", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("straight", of("developer"), inRegion("eu-west"))))
		Expect(s.Status.StartTime).NotTo(BeNil())
		Expect(s.Status.Message).To(BeEmpty())
		Expect(s.Status.Placement.Epoch).To(BeEquivalentTo(1))
		Expect(s.Finalizers).To(ContainElement(v1alpha1.Finalizer))
		name := v1alpha1.AssignmentName(s.Name, s.UID)

		member := clientOf(memberNamed(s.Status.Placement.ClusterName).ControlPlane)
		ingress := &networkingv1.Ingress{}
		Expect(member.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, ingress)).To(Succeed())
		Expect(s.Status.Endpoint.URL).To(HavePrefix("https://" + ingress.Spec.Rules[0].Host))
		Expect(s.Status.URL).To(Equal(fleet.Console.URL + "/s/" + namespace + "/" + s.Name))
		pod := &corev1.Pod{}
		Expect(member.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod)).To(Succeed())
		Expect(pod.Spec.NodeName).NotTo(BeEmpty())

		claim := v1alpha1.HomeName(namespace, s.Spec.User, "developer")
		home := &v1alpha1.VDIHome{}
		Expect(hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: claim}, home)).To(Succeed())
		Expect(home.Spec.ClusterName).To(Equal(s.Status.Placement.ClusterName))
	})

	It("is placed where it prefers, though its template is new to every member", func(ctx SpecContext) {
		for i, region := range []string{"ap-south", "us-east", "eu-west"} {
			name := fmt.Sprintf("brand-new-%d", i)
			template(ctx, name, func(*v1alpha1.TemplateSpec) {})
			s := create(ctx, newSession(name, of(name), func(s *v1alpha1.VDISession) {
				s.Spec.Placement.PreferredRegions = []string{region}
			}))
			Expect(awaitRunning(ctx, s).Status.Placement.Region).To(Equal(region))
		}
	})

	It("keeps its spec as its user wrote it", func(ctx SpecContext) {
		s := newSession("as-written")
		Expect(fleet.Hub.ControlPlane.Apply(ctx, []byte(
			`{"apiVersion":"vdi.kasm.io/v1alpha1","kind":"VDISession","metadata":{"name":"as-written","namespace":"desktops"},"spec":{"user":"u","template":"browser","resources":{"cpu":1}}}`))).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(hub.Delete(ctx, s)).To(Succeed())
			awaitGone(ctx, s)
		})
		// cpu is a number there, which Go would write as text.
		Expect(awaitRunning(ctx, s).Generation).To(BeEquivalentTo(1))
	})

	It("leaves nothing but a kept home in its member once it is deleted", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("deleted")))
		Expect(hub.Delete(ctx, s)).To(Succeed())
		awaitGone(ctx, s)
		left, err := childrenOf(ctx, s.Status.Placement.ClusterName, namespace, v1alpha1.AssignmentName(s.Name, s.UID))
		Expect(err).NotTo(HaveOccurred())
		Expect(left).To(BeEmpty())
	})

	It("is repaired in its member when its Pod is deleted or its Service changed", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("repaired")))
		name := v1alpha1.AssignmentName(s.Name, s.UID)
		core := memberNamed(s.Status.Placement.ClusterName).ControlPlane.Client.CoreV1()
		before, err := core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		svc, err := core.Services(namespace).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		port := svc.Spec.Ports[0].Port
		svc.Spec.Ports[0].Port = 9999
		_, err = core.Services(namespace).Update(ctx, svc, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(core.Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())

		Eventually(ctx, func(ctx context.Context) (string, error) {
			pod, err := core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
			return string(pod.UID), client.IgnoreNotFound(err)
		}).ShouldNot(Or(Equal(string(before.UID)), BeEmpty()))
		Eventually(ctx, func(ctx context.Context) (int32, error) {
			svc, err := core.Services(namespace).Get(ctx, name, metav1.GetOptions{})
			return svc.Spec.Ports[0].Port, err
		}).Should(Equal(port))
		awaitRunning(ctx, s)
	})

	It("has its assignment repaired when it is changed in its member", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("drift", inRegion("eu-west"))))
		member := clientOf(memberNamed(s.Status.Placement.ClusterName).ControlPlane)
		key := client.ObjectKey{Namespace: namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}
		a := &v1alpha1.SessionAssignment{}
		Expect(member.Get(ctx, key, a)).To(Succeed())
		host := a.Spec.Host
		a.Spec.Host, a.Labels, a.Finalizers = "stolen.example.com", nil, nil
		Expect(member.Update(ctx, a)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) (string, error) {
			err := member.Get(ctx, key, a)
			return a.Spec.Host, err
		}).Should(Equal(host))
		Expect(a.Finalizers).To(ContainElement(v1alpha1.AssignmentFinalizer))
		Expect(a.Labels).To(HaveKeyWithValue(v1alpha1.LabelManagedBy, v1alpha1.ManagedBy))
		ingress := &networkingv1.Ingress{}
		Eventually(ctx, func(ctx context.Context) (string, error) {
			if err := member.Get(ctx, key, ingress); err != nil {
				return "", err
			}
			return ingress.Spec.Rules[0].Host, nil
		}).Should(Equal(host))
	})

	It("is rescheduled under the next epoch when its assignment is deleted by hand", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("by-hand")))
		member := clientOf(memberNamed(s.Status.Placement.ClusterName).ControlPlane)
		a := &v1alpha1.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}}
		Expect(member.Delete(ctx, a)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) (int64, error) {
			out, err := get(ctx, s)
			return out.Status.Epoch, err
		}).Should(BeEquivalentTo(2))
		awaitRunning(ctx, s)
	})

	It("of the same name in two namespaces never uses the other's objects", func(ctx SpecContext) {
		one := awaitRunning(ctx, create(ctx, newSession("twin", inRegion("eu-west"))))
		two := awaitRunning(ctx, create(ctx, newSession("twin", in(second), inRegion("eu-west"))))
		Expect(one.Status.Endpoint).NotTo(Equal(two.Status.Endpoint))
		Expect(hub.Delete(ctx, one)).To(Succeed())
		awaitGone(ctx, one)
		Consistently(ctx, phase(two)).Should(Equal(v1alpha1.PhaseRunning))
	})

	It("shows its whole history in kubectl get and describe", func(ctx SpecContext) {
		s := awaitRunning(ctx, create(ctx, newSession("story")))
		out, err := fleet.Hub.ControlPlane.Kubectl(ctx, "get", "vdis", s.Name, "-n", namespace)
		Expect(err).NotTo(HaveOccurred())
		Expect(out).To(And(ContainSubstring("Running"), ContainSubstring(s.Status.Placement.ClusterName), ContainSubstring(s.Status.URL)))
		Eventually(ctx, func(ctx context.Context) (string, error) {
			return fleet.Hub.ControlPlane.Kubectl(ctx, "describe", "vdisession", s.Name, "-n", namespace)
		}).Should(And(ContainSubstring(v1alpha1.ReasonPlaced), ContainSubstring(v1alpha1.EventRunning), ContainSubstring("has stored the assignment")))
		out, err = fleet.Hub.ControlPlane.Kubectl(ctx, "get", "memberclusters")
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Count(out, v1alpha1.ReasonConnected)).To(Equal(3))
	})
})

func user(name string) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) { s.Spec.User = name }
}
