package render

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// startupProbe gives a desktop its time to open its port, and notices within a
// second that it did.
func startupProbe(d *api.Desktop) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     connects(),
		PeriodSeconds:    1,
		TimeoutSeconds:   1,
		FailureThreshold: wholeSeconds(d.StartTime()),
	}
}

// wholeSeconds rounds up, and is never more than a probe can count.
func wholeSeconds(d time.Duration) int32 {
	return int32(min(math.Ceil(d.Seconds()), math.MaxInt32))
}

// readinessProbe takes a desktop out of its Service that opens no port.
func readinessProbe() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     connects(),
		PeriodSeconds:    5,
		TimeoutSeconds:   2,
		FailureThreshold: 3,
	}
}

// livenessProbe restarts a desktop only if its port has been closed for two
// minutes: the system accepts connections for a process that is busy, swaps or
// stands still, so what is slow but alive is never ended.
func livenessProbe() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     connects(),
		PeriodSeconds:    20,
		TimeoutSeconds:   10,
		FailureThreshold: 6,
	}
}

// connects asks for no more than an open port: what a desktop serves on "/"
// may need a login.
func connects() corev1.ProbeHandler {
	return corev1.ProbeHandler{
		TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(PortName)},
	}
}
