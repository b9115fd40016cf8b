package session_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var _ = Describe("Pod Security", func() {
	full := func(a *api.SessionAssignment) {
		configured(a)
		withAccess(a)
		home(api.HomePerSession)(a)
		a.Spec.Desktop.Protocol, a.Spec.Desktop.Path = api.ProtocolHTTPS, "/vnc.html"
		a.Spec.Desktop.SharedMemory = ptr.To(resource.MustParse("64Mi"))
		a.Spec.Desktop.Secrets = []api.SecretUse{{Name: "license", MountPath: "/etc/license"}}
		a.Spec.Desktop.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	}

	// stored is how an API server would store it.
	stored := func(a *api.SessionAssignment) { a.UID = "stored" }

	It("restricted admits the desktops", func(ctx SpecContext) {
		for _, change := range []func(*api.SessionAssignment){func(*api.SessionAssignment) {}, full} {
			a, guard := assignment(change, stored), render.Guard{Image: "agent:1", LeaseURL: "http://agent:8082", Key: "key", Port: 8079, TimeFactor: 1}
			for _, pod := range []*corev1.Pod{render.Pod(a), render.GuardedPod(a, guard), render.GatedPod(a, guard)} {
				Expect(admin.Create(ctx, pod, client.DryRunAll)).To(Succeed())
			}
		}
	}, SpecTimeout(3*time.Minute))

	DescribeTable("restricted refuses, in the same namespace, a Pod with fewer restrictions",
		func(ctx SpecContext, spoil func(*corev1.PodSpec)) {
			pod := render.Pod(assignment(stored))
			spoil(&pod.Spec)
			err := admin.Create(ctx, pod, client.DryRunAll)
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
			Expect(err).To(MatchError(ContainSubstring("PodSecurity")))
		},
		Entry("runs as root", func(s *corev1.PodSpec) {
			s.SecurityContext.RunAsNonRoot, s.SecurityContext.RunAsUser = nil, ptr.To[int64](0)
		}),
		Entry("has no seccomp profile", func(s *corev1.PodSpec) { s.SecurityContext.SeccompProfile = nil }),
		Entry("may escalate", func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext.AllowPrivilegeEscalation = ptr.To(true)
		}),
		Entry("has capabilities", func(s *corev1.PodSpec) { s.Containers[0].SecurityContext.Capabilities = nil }),
		Entry("mounts the node", func(s *corev1.PodSpec) {
			s.Volumes = append(s.Volumes, corev1.Volume{Name: "node", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		}),
	)
})
