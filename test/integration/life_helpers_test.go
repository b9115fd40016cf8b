package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// change patches a session's spec as its user would.
func change(ctx context.Context, s *v1alpha1.VDISession, f func(*v1alpha1.VDISession)) {
	GinkgoHelper()
	now, err := get(ctx, s)
	Expect(err).NotTo(HaveOccurred())
	before := now.DeepCopy()
	f(now)
	Expect(hub.Patch(ctx, now, client.MergeFrom(before))).To(Succeed())
}

func suspended(s *v1alpha1.VDISession) { s.Spec.OperatingMode = v1alpha1.ModeSuspended }
func resumed(s *v1alpha1.VDISession)   { s.Spec.OperatingMode = v1alpha1.ModeRunning }

// password returns the password in a session's access Secret on the hub, once the member has the
// same.
func password(ctx context.Context, s *v1alpha1.VDISession) string {
	GinkgoHelper()
	now, err := get(ctx, s)
	Expect(err).NotTo(HaveOccurred())
	Expect(now.Status.AccessSecretName).NotTo(BeEmpty())
	secret := &corev1.Secret{}
	Expect(hub.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: now.Status.AccessSecretName}, secret)).To(Succeed())
	Expect(secret.Data[corev1.BasicAuthPasswordKey]).NotTo(BeEmpty())
	there := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID) + "-access"}
	member := clientOf(memberNamed(now.Status.Placement.ClusterName).ControlPlane)
	Eventually(ctx, func(ctx context.Context) (string, error) {
		err := member.Get(ctx, key, there)
		return string(there.Data[corev1.BasicAuthPasswordKey]), err
	}).Should(Equal(string(secret.Data[corev1.BasicAuthPasswordKey])))
	return string(secret.Data[corev1.BasicAuthPasswordKey])
}

// eventsOf returns the reasons of the events on a session, for Eventually.
func eventsOf(s *v1alpha1.VDISession) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		list := &eventsv1.EventList{}
		if err := hub.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return nil, err
		}
		var out []string
		for i := range list.Items {
			if list.Items[i].Regarding.UID == s.UID {
				out = append(out, list.Items[i].Reason)
			}
		}
		return out, nil
	}
}
