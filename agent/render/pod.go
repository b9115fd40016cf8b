package render

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Names within the Pod.
const (
	// DesktopContainer is the name of the container that is the desktop.
	DesktopContainer = "desktop"
	// PortName is the name of the desktop's port, in Pod and Service.
	PortName = "http"
)

// The annotations that prevent Cluster Autoscaler and Karpenter from removing a desktop's
// node.
const (
	annotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// desktopUser is the user and group that desktops run as: the first regular user of a
// distribution.
const desktopUser = 1000

// stopGraceSeconds is a desktop's grace period. R of a Fence session's failover depends on it
// (docs/design.md, section 7).
const stopGraceSeconds = 30

// Pod returns the Pod of the desktop.
func Pod(a *api.SessionAssignment) *corev1.Pod {
	// A client decodes responses into the Pod, which must share nothing with the assignment.
	d := a.Spec.Desktop.DeepCopy()
	volumes, mounts := volumes(a)
	pod := &corev1.Pod{ObjectMeta: ownedMeta(a)}
	if a.Spec.Desktop.Home.Mode == api.HomePerUser {
		pod.Labels[LabelHome] = a.Spec.Desktop.Home.ClaimName
	}
	pod.Annotations[AnnotationUser] = a.Spec.User
	pod.Annotations[AnnotationDesktopHash] = DesktopHash(a)
	pod.Annotations[api.AnnotationAttempt] = strconv.FormatInt(a.Spec.Attempt, 10)
	pod.Annotations[annotationSafeToEvict] = "false"
	pod.Annotations[annotationDoNotDisrupt] = "true"
	if RequiresStopProof(a) {
		// It keeps the Pod until its stop is proven.
		pod.Finalizers = []string{api.PodFinalizer}
	}
	pod.Spec = corev1.PodSpec{
		Containers:                    []corev1.Container{desktop(a, d, mounts)},
		Volumes:                       volumes,
		ImagePullSecrets:              d.ImagePullSecrets,
		NodeSelector:                  d.NodeSelector,
		Tolerations:                   d.Tolerations,
		RuntimeClassName:              optional(d.RuntimeClassName),
		PriorityClassName:             d.PriorityClassName,
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: ptr.To[int64](stopGraceSeconds),
		// A desktop has no access to the cluster's API.
		AutomountServiceAccountToken: ptr.To(false),
		EnableServiceLinks:           ptr.To(false),
		SecurityContext:              podSecurity(),
	}
	return pod
}

// RequiresStopProof reports whether a desktop counts as stopped only once its kubelet has
// reported it: it must never run twice, or it writes to a home.
func RequiresStopProof(a *api.SessionAssignment) bool {
	mode := a.Spec.FailoverMode
	return mode == api.FailoverHold || mode == api.FailoverFence || HasHome(a)
}

func desktop(a *api.SessionAssignment, d *api.Desktop, mounts []corev1.VolumeMount) corev1.Container {
	return corev1.Container{
		Name:            DesktopContainer,
		Image:           d.Image,
		ImagePullPolicy: d.ImagePullPolicy,
		Command:         d.Command,
		Args:            d.Args,
		Ports: []corev1.ContainerPort{
			{Name: PortName, ContainerPort: d.Port, Protocol: corev1.ProtocolTCP},
		},
		Env:             env(a),
		Resources:       requirements(d.Resources),
		VolumeMounts:    mounts,
		SecurityContext: containerSecurity(),
		// A desktop has its start time to open its port.
		StartupProbe: tcpProbe(1, 1, wholeSeconds(d.StartTime())),
		// One with a closed port is removed from its Service.
		ReadinessProbe: tcpProbe(5, 2, 3),
		// It is restarted once its port was closed for two minutes. The kernel accepts
		// connections of a busy or slow process, so that it is not restarted.
		LivenessProbe: tcpProbe(20, 10, 6),
	}
}

// requirements returns equal requests and limits, so that hub and kube-scheduler count the
// same. An order without ephemeral storage gets the default limit, and requests zero, which
// the API server would otherwise set to the limit.
func requirements(requested corev1.ResourceList) corev1.ResourceRequirements {
	limits := corev1.ResourceList{corev1.ResourceEphemeralStorage: api.DefaultEphemeralStorage()}
	requests := corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("0")}
	for name, amount := range requested {
		limits[name], requests[name] = amount.DeepCopy(), amount.DeepCopy()
	}
	return corev1.ResourceRequirements{Requests: requests, Limits: limits}
}

func podSecurity() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true),
		RunAsUser:    ptr.To[int64](desktopUser),
		RunAsGroup:   ptr.To[int64](desktopUser),
		FSGroup:      ptr.To[int64](desktopUser),
		// Avoids a recursive chown of a large home at every start.
		FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
		SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}
