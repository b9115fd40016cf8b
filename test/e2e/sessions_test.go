package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/e2e/kindfleet"
)

var _ = Describe("Sessions on real kubelets", func() {
	It("run within the floor, answer, and leave nothing behind", func(ctx SpecContext) {
		var sessions []*v1alpha1.VDISession
		for i, region := range []string{"eu-west", "eu-west", "us-east", "us-east"} {
			sessions = append(sessions, newSession(ctx, fmt.Sprintf("floor-%d", i), sample, inRegion(region)))
		}
		for _, s := range sessions {
			running(ctx, s, s.Spec.Placement.RequiredRegions[0])
			took := s.Status.RunningSince.Sub(s.CreationTimestamp.Time)
			reportTime("create to Running of "+s.Name, took)
			Expect(took).To(BeNumerically("<=", floor))
			Expect(s.Status.URL).To(HaveSuffix("." + s.Status.Placement.ClusterName + ".desktops.test"))
			Eventually(ctx, visit).WithArguments(s, "/", "").Should(ContainSubstring("Sample desktop"))
		}
		for _, s := range sessions {
			Expect(fleet.Hub.Client.Delete(ctx, s)).To(Succeed())
		}
		for _, s := range sessions {
			Eventually(ctx, gone(s)).Should(BeTrue())
			nothingLeft(ctx, s)
		}
	})

	It("keep their home over a suspension, and have a new password", func(ctx SpecContext) {
		s := newSession(ctx, "home", sampleHome, inRegion("eu-west"))
		running(ctx, s, "eu-west")
		Eventually(ctx, visit).WithArguments(s, "/notes", "buy milk").Should(BeEmpty())
		first, before := podOf(ctx, s), password(ctx, s)

		operate(ctx, s, v1alpha1.ModeSuspended)
		Eventually(ctx, func(ctx context.Context) ([]kindfleet.Container, error) {
			return alive(ctx, s)
		}).Should(BeEmpty(), "no container of a suspended session runs")
		operate(ctx, s, v1alpha1.ModeRunning)
		reportTime("resumption to Running", running(ctx, s, "eu-west"))
		Expect(podOf(ctx, s).UID).NotTo(Equal(first.UID))
		Expect(password(ctx, s)).NotTo(Equal(before))
		Eventually(ctx, visit).WithArguments(s, "/notes", "").Should(Equal("buy milk"))
	})

	It("run where only restricted Pods are admitted", func(ctx SpecContext) {
		for _, c := range append([]*kindfleet.Cluster{fleet.Hub}, fleet.Members...) {
			for _, namespace := range []string{kindfleet.SystemNamespace, kindfleet.Desktops} {
				err := c.Client.Create(ctx, &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "root"},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{
						Name: "root", Image: "root", SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)},
					}}},
				}, client.DryRunAll)
				Expect(err).To(MatchError(ContainSubstring(`violates PodSecurity "restricted:latest"`)), "%s of %s", namespace, c.Name)
			}
			var events corev1.EventList
			Expect(c.Client.List(ctx, &events, client.InNamespace(kindfleet.SystemNamespace))).To(Succeed())
			for _, event := range events.Items {
				Expect(event.Message).NotTo(ContainSubstring("violates PodSecurity"), "%s of %s", event.InvolvedObject.Name, c.Name)
			}
		}
	})
})

// operate sets the session's operating mode.
func operate(ctx context.Context, s *v1alpha1.VDISession, mode v1alpha1.OperatingMode) {
	GinkgoHelper()
	patch := client.MergeFrom(s.DeepCopy())
	s.Spec.OperatingMode = mode
	Expect(fleet.Hub.Client.Patch(ctx, s, patch)).To(Succeed())
}

func password(ctx context.Context, s *v1alpha1.VDISession) string {
	GinkgoHelper()
	Expect(read(ctx, s)).To(Succeed())
	var secret corev1.Secret
	Expect(fleet.Hub.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Status.AccessSecretName}, &secret)).To(Succeed())
	return string(secret.Data["password"])
}

// alive returns the session's desktops that run in any node of any member according to containerd,
// whatever API servers show.
func alive(ctx context.Context, s *v1alpha1.VDISession) ([]kindfleet.Container, error) {
	var found []kindfleet.Container
	for _, pod := range watcher.podsOf(s) {
		nodes, err := fleet.Member(pod.member).Nodes()
		if err != nil {
			return nil, err
		}
		for _, node := range nodes {
			containers, err := (&kindfleet.Node{Node: node}).Containers(ctx, "desktop")
			if err != nil {
				return nil, err
			}
			for _, c := range containers {
				if c.Pod == pod.name && c.Namespace == s.Namespace && c.State == kindfleet.Running {
					found = append(found, c)
				}
			}
		}
	}
	return found, nil
}

// nothingLeft checks that nothing of a deleted session is left in members or in their nodes.
func nothingLeft(ctx context.Context, s *v1alpha1.VDISession) {
	GinkgoHelper()
	Expect(alive(ctx, s)).To(BeEmpty())
	for _, member := range fleet.Members {
		for _, list := range []client.ObjectList{
			&corev1.PodList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{},
			&networkingv1.IngressList{}, &v1alpha1.SessionAssignmentList{},
		} {
			Eventually(ctx, func(ctx context.Context) (int, error) {
				err := member.Client.List(ctx, list, of(s)...)
				return meta.LenList(list), err
			}).WithTimeout(time.Minute).Should(BeZero(), "%T of %s in %s", list, s.Name, member.Name)
		}
	}
}
