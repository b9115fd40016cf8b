package render

import (
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Names within the Pod.
const (
	// DesktopContainer is the name of the container that is the desktop.
	DesktopContainer = "desktop"
	// PortName is the name of the desktop's port, in Pod and Service.
	PortName = "http"

	homeVolume   = "home"
	tmpVolume    = "tmp"
	shmVolume    = "shm"
	configVolume = "config"
	accessVolume = "access"
)

// The marks that ask the two well-known autoscalers not to take a desktop's
// node away from under it.
const (
	annotationSafeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationDoNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// defaultStartTimeout is how long a desktop may take to open its port.
const defaultStartTimeout = 5 * time.Minute

// desktopUser is the user and group that desktops run as: the first that a
// distribution gives to a person.
const desktopUser = 1000

// stopGraceSeconds a desktop has to save its work. R of a Fence session's
// failover reckons with it (DESIGN section 7): it is not to grow alone.
const stopGraceSeconds = 30

// Pod is the desktop itself.
func Pod(a *api.SessionAssignment) *corev1.Pod {
	// A client decodes its answer into what it was given: nothing of the
	// assignment may be shared with the Pod.
	d := a.Spec.Desktop.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: ownedMeta(a)}
	pod.Annotations[AnnotationUser] = a.Spec.User
	pod.Annotations[AnnotationDesktopHash] = DesktopHash(a)
	pod.Annotations[api.AnnotationAttempt] = strconv.FormatInt(a.Spec.Attempt, 10)
	pod.Annotations[annotationSafeToEvict] = "false"
	pod.Annotations[annotationDoNotDisrupt] = "true"
	var volumes []corev1.Volume
	for _, m := range mounts(a) {
		volumes = append(volumes, m.volume)
	}
	pod.Spec = corev1.PodSpec{
		Containers:                    []corev1.Container{desktop(a, d)},
		Volumes:                       volumes,
		ImagePullSecrets:              d.ImagePullSecrets,
		NodeSelector:                  d.NodeSelector,
		Tolerations:                   d.Tolerations,
		RuntimeClassName:              optional(d.RuntimeClassName),
		PriorityClassName:             d.PriorityClassName,
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: ptr.To[int64](stopGraceSeconds),
		// A desktop is a stranger to the cluster's API.
		AutomountServiceAccountToken: ptr.To(false),
		EnableServiceLinks:           ptr.To(false),
		SecurityContext:              podSecurity(),
	}
	return pod
}

func desktop(a *api.SessionAssignment, d *api.Desktop) corev1.Container {
	var at []corev1.VolumeMount
	for _, m := range mounts(a) {
		at = append(at, m.mount)
	}
	return corev1.Container{
		Name:            DesktopContainer,
		Image:           d.Image,
		ImagePullPolicy: d.ImagePullPolicy,
		Command:         d.Command,
		Args:            d.Args,
		Ports: []corev1.ContainerPort{
			{Name: PortName, ContainerPort: d.Port, Protocol: corev1.ProtocolTCP},
		},
		Env: env(a),
		// Equal, so that no neighbour can take what was promised and what
		// the hub reckons with is what the scheduler reckons with.
		Resources:       corev1.ResourceRequirements{Requests: d.Resources.DeepCopy(), Limits: d.Resources},
		VolumeMounts:    at,
		StartupProbe:    startupProbe(d.StartTimeout),
		ReadinessProbe:  readinessProbe(),
		LivenessProbe:   livenessProbe(),
		SecurityContext: containerSecurity(),
	}
}

// startupProbe gives a desktop its time to open its port, and notices within a
// second that it did.
func startupProbe(timeout api.Duration) *corev1.Probe {
	patience, ok := timeout.Value()
	if !ok || patience < time.Second {
		patience = defaultStartTimeout
	}
	return &corev1.Probe{
		ProbeHandler:     connects(),
		PeriodSeconds:    1,
		TimeoutSeconds:   1,
		FailureThreshold: int32(min(patience.Seconds(), math.MaxInt32)),
	}
}

// livenessProbe restarts a desktop that has not so much as accepted a
// connection for two minutes. One that is merely slow is left alone: its user's
// work is in it.
func livenessProbe() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     connects(),
		PeriodSeconds:    20,
		TimeoutSeconds:   10,
		FailureThreshold: 6,
	}
}

func readinessProbe() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     connects(),
		PeriodSeconds:    5,
		TimeoutSeconds:   2,
		FailureThreshold: 3,
	}
}

// connects asks for no more than an open port: what a desktop serves on "/"
// may need a login.
func connects() corev1.ProbeHandler {
	return corev1.ProbeHandler{
		TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(PortName)},
	}
}

func podSecurity() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot: ptr.To(true),
		RunAsUser:    ptr.To[int64](desktopUser),
		RunAsGroup:   ptr.To[int64](desktopUser),
		FSGroup:      ptr.To[int64](desktopUser),
		// A large home must not be walked through at every start.
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
