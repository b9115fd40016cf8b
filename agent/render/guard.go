package render

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// GuardContainer is the name of the sidecar that stops a fenced desktop when the hub's lease
// is over: see agent/guard.
const GuardContainer = "vdi-guard"

// Paths of a guard's probes.
const (
	// PathLease answers 200 while the desktop may run at all.
	PathLease = "/alive"
	// PathDesktop also requires that the desktop answers on its port. It is only for the
	// desktop's liveness probe, which begins once the desktop runs.
	PathDesktop = "/alive/desktop"
)

// EnvPodIP is the environment variable with the address on which a guard listens.
const EnvPodIP = "POD_IP"

// The guard's part of the desktop's resources, at most a half of each.
const (
	guardMilliCPU = 50
	guardMemory   = 64 << 20
)

const (
	// guardPeriod and guardFailures are those of the liveness probe. R of a Fence session's
	// failover depends on both (docs/design.md, section 7).
	guardPeriod   = 5 * time.Second
	guardFailures = 3
	// guardStartFailures is how many seconds a guard may wait for a lease before the kubelet
	// restarts it. The desktop waits meanwhile.
	guardStartFailures = 3600
)

// Guard has the agent's parameters of guards and gates.
type Guard struct {
	// Image of guards and gates.
	Image string
	// LeaseURL is the agent's endpoint, and Key its public key.
	LeaseURL, Key string
	// Port of the guard; the next one if it is the desktop's.
	Port int32
	// TimeFactor scales the timings of the lease.
	TimeFactor float64
}

// Guarded reports whether a Pod has a guard.
func Guarded(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == GuardContainer })
}

// GuardedPod returns the desktop with a guard, by which the kubelet stops the desktop when the
// lease is over. It requests as much as the desktop alone, and the kubelet does not restart
// the desktop.
func GuardedPod(a *api.SessionAssignment, g Guard) *corev1.Pod {
	reduced := a.DeepCopy()
	share := splitGuardResources(reduced.Spec.Desktop.Resources)
	pod := Pod(reduced)
	pod.Annotations[AnnotationDesktopHash] = DesktopHash(a)
	port := g.port(a)
	d := &pod.Spec.Containers[0]
	// The guard checks the desktop's start: the liveness probe would wait for a startup
	// probe.
	d.StartupProbe = nil
	period := g.seconds(guardPeriod)
	d.LivenessProbe = httpProbe(PathDesktop, port, period, min(2, period), guardFailures)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(min(stopGraceSeconds, g.seconds(stopGraceSeconds*time.Second))))
	pod.Spec.InitContainers = []corev1.Container{g.sidecar(a, port, share)}
	return pod
}

// splitGuardResources moves the guard's part out of the resources of a desktop.
func splitGuardResources(desktop corev1.ResourceList) corev1.ResourceList {
	share := corev1.ResourceList{}
	cpu, memory := desktop[corev1.ResourceCPU], desktop[corev1.ResourceMemory]
	parts := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(min(cpu.MilliValue()/2, guardMilliCPU), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(min(memory.Value()/2, guardMemory), resource.BinarySI),
	}
	for name, part := range parts {
		if have := desktop[name]; !part.IsZero() { // Zero would be no limit.
			have.Sub(part)
			desktop[name], share[name] = have, part
		}
	}
	return share
}

func (g Guard) port(a *api.SessionAssignment) int32 {
	if a.Spec.Desktop.Port != g.Port {
		return g.Port
	}
	return g.Port%65535 + 1
}

func (g Guard) sidecar(a *api.SessionAssignment, port int32, share corev1.ResourceList) corev1.Container {
	c := g.container(a, GuardContainer, corev1.ResourceRequirements{Requests: share.DeepCopy(), Limits: share}, "guard",
		"--port="+strconv.Itoa(int(port)),
		"--desktop-port="+strconv.Itoa(int(a.Spec.Desktop.Port)),
		"--start-timeout="+a.Spec.Desktop.StartTime().String(),
	)
	c.Env = []corev1.EnvVar{{Name: EnvPodIP, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"},
	}}}
	// A sidecar starts before the desktop, which waits until the guard has a lease.
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	c.StartupProbe = httpProbe(PathLease, port, 1, 1, guardStartFailures)
	return c
}

// container returns the container of a guard or a gate, with a subcommand of the agent and
// its flags.
func (g Guard) container(a *api.SessionAssignment, name string, resources corev1.ResourceRequirements, command string, flags ...string) corev1.Container {
	security := containerSecurity()
	security.ReadOnlyRootFilesystem = ptr.To(true)
	args := []string{
		command,
		"--lease-url=" + g.LeaseURL,
		"--key=" + g.Key,
		"--namespace=" + a.Namespace,
		"--name=" + a.Name,
		"--uid=" + string(a.UID),
	}
	args = append(append(args, flags...), fmt.Sprintf("--time-factor=%v", g.TimeFactor))
	return corev1.Container{Name: name, Image: g.Image, Args: args, Resources: resources, SecurityContext: security}
}

// seconds returns a scaled duration in seconds, at least 1.
func (g Guard) seconds(d time.Duration) int32 {
	return max(1, wholeSeconds(time.Duration(float64(d)*g.TimeFactor)))
}

// mayHaveGuard reports whether the Pod of an assignment may have a guard or a gate, which
// must reach the agent.
func mayHaveGuard(a *api.SessionAssignment) bool {
	mode := a.Spec.FailoverMode
	return mode == api.FailoverFence || mode == api.FailoverHold || a.Status.Guarded
}
