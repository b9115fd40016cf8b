package render

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// GuardContainer is the name of the sidecar that stops a fenced desktop when the
// hub's lease is over: see agent/guard.
const GuardContainer = "vdi-guard"

// Paths on which a guard answers the kubelet.
const (
	// PathLease answers 200 while the desktop may run at all.
	PathLease = "/alive"
	// PathDesktop also requires that the desktop answers on its port. It is only for the
	// kubelet's probe of the desktop itself, which begins once it runs.
	PathDesktop = "/alive/desktop"
)

// EnvPodIP is the variable by which a guard knows where to listen.
const EnvPodIP = "POD_IP"

// What a guard takes of the desktop's resources, and at most a half of each.
var (
	guardCPU    = resource.MustParse("50m")
	guardMemory = resource.MustParse("64Mi")
)

const (
	// guardPeriod is how often the kubelet asks whether the lease still holds, and
	// guardFailures how many times it must hear that it does not. R of a Fence
	// session's failover reckons with both (docs/design.md, section 7).
	guardPeriod   = 5 * time.Second
	guardFailures = 3
	// guardPatience is how many times a second the kubelet asks a guard for a lease
	// before it restarts the guard. The desktop waits meanwhile.
	guardPatience = 3600
)

// Guard is what a guard beside a desktop, or the gate before one, must know of its
// agent.
type Guard struct {
	// Image of the agent, which is the guard's and the gate's.
	Image string
	// LeaseURL is where the agent answers, and Key its public key.
	LeaseURL, Key string
	// Port on which a guard answers the kubelet; the next one where it is the
	// desktop's own.
	Port int32
	// TimeFactor scales what has to do with the lease.
	TimeFactor float64
}

// Guarded reports whether a Pod has a guard.
func Guarded(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == GuardContainer })
}

// GuardedPod returns the desktop with a guard beside it, by which the kubelet ends the
// desktop when the lease is over. It asks for as much as the desktop alone, and
// what has ended there the kubelet does not start again.
func GuardedPod(a *api.SessionAssignment, g Guard) *corev1.Pod {
	within := a.DeepCopy()
	share := shareOf(within.Spec.Desktop.Resources)
	pod := Pod(within)
	pod.Annotations[AnnotationDesktopHash] = DesktopHash(a)
	port := g.port(a)
	d := &pod.Spec.Containers[0]
	// The guard watches for the desktop's start itself: while a startup probe goes
	// on, the kubelet would not ask for the lease.
	d.StartupProbe = nil
	d.LivenessProbe = g.liveness(port)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(min(stopGraceSeconds, g.seconds(stopGraceSeconds*time.Second))))
	pod.Spec.InitContainers = []corev1.Container{g.container(a, port, share)}
	return pod
}

// shareOf takes a guard's part out of the resources of a desktop.
func shareOf(of corev1.ResourceList) corev1.ResourceList {
	share := corev1.ResourceList{}
	take := func(name corev1.ResourceName, most resource.Quantity, half func(resource.Quantity) *resource.Quantity) {
		have, ok := of[name]
		if !ok {
			return
		}
		part := half(have)
		if part.Cmp(most) > 0 {
			part = ptr.To(most.DeepCopy())
		}
		if part.IsZero() {
			return // It would be read as no limit at all.
		}
		have.Sub(*part)
		of[name], share[name] = have, *part
	}
	take(corev1.ResourceCPU, guardCPU, func(q resource.Quantity) *resource.Quantity {
		return resource.NewMilliQuantity(q.MilliValue()/2, resource.DecimalSI)
	})
	take(corev1.ResourceMemory, guardMemory, func(q resource.Quantity) *resource.Quantity {
		return resource.NewQuantity(q.Value()/2, resource.BinarySI)
	})
	return share
}

func (g Guard) port(a *api.SessionAssignment) int32 {
	if a.Spec.Desktop.Port != g.Port {
		return g.Port
	}
	return g.Port%65535 + 1
}

func (g Guard) container(a *api.SessionAssignment, port int32, share corev1.ResourceList) corev1.Container {
	security := containerSecurity()
	security.ReadOnlyRootFilesystem = ptr.To(true)
	args := append([]string{"guard"}, g.toAsk(a)...)
	args = append(args,
		"--port="+strconv.Itoa(int(port)),
		"--desktop-port="+strconv.Itoa(int(a.Spec.Desktop.Port)),
		"--start-timeout="+a.Spec.Desktop.StartTime().String(),
		fmt.Sprintf("--time-factor=%v", g.TimeFactor),
	)
	return corev1.Container{
		Name:  GuardContainer,
		Image: g.Image,
		Args:  args,
		Env: []corev1.EnvVar{{Name: EnvPodIP, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"},
		}}},
		Resources: corev1.ResourceRequirements{Requests: share.DeepCopy(), Limits: share},
		// A sidecar: it starts before the desktop, which waits until it has a lease.
		RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
		StartupProbe: &corev1.Probe{
			ProbeHandler: asks(PathLease, port), PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: guardPatience,
		},
		SecurityContext: security,
	}
}

// toAsk returns the flags by which the agent is asked about an assignment.
func (g Guard) toAsk(a *api.SessionAssignment) []string {
	return []string{
		"--lease-url=" + g.LeaseURL,
		"--key=" + g.Key,
		"--namespace=" + a.Namespace,
		"--name=" + a.Name,
		"--uid=" + string(a.UID),
	}
}

func (g Guard) liveness(port int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     asks(PathDesktop, port),
		PeriodSeconds:    g.seconds(guardPeriod),
		TimeoutSeconds:   min(2, g.seconds(guardPeriod)),
		FailureThreshold: guardFailures,
	}
}

// seconds returns a time as the factor has it, in the least that Kubernetes counts.
func (g Guard) seconds(d time.Duration) int32 {
	return max(1, wholeSeconds(time.Duration(float64(d)*g.TimeFactor)))
}

func asks(path string, port int32) corev1.ProbeHandler {
	return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: path, Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTP,
	}}
}

// asksAgent reports whether what is in the Pod beside the desktop, or was and lives
// on, asks the agent whether the desktop may run: a guard or a gate.
func asksAgent(a *api.SessionAssignment) bool {
	mode := a.Spec.FailoverMode
	return mode == api.FailoverFence || mode == api.FailoverHold || a.Status.Guarded
}

// toAgent lets a guard or a gate reach its agent.
func toAgent(n Network) networkingv1.NetworkPolicyEgressRule {
	return networkingv1.NetworkPolicyEgressRule{
		To:    []networkingv1.NetworkPolicyPeer{{NamespaceSelector: namespaceNamed(n.AgentNamespace)}},
		Ports: []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolTCP, n.LeasePort)},
	}
}
