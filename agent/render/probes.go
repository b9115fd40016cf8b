package render

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// startupProbe allows a desktop its start time to open its port, and checks every second.
func startupProbe(d *api.Desktop) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     tcpProbe(),
		PeriodSeconds:    1,
		TimeoutSeconds:   1,
		FailureThreshold: wholeSeconds(d.StartTime()),
	}
}

// wholeSeconds rounds up, to at most the maximum of a probe's fields.
func wholeSeconds(d time.Duration) int32 {
	return int32(min(math.Ceil(d.Seconds()), math.MaxInt32))
}

// readinessProbe removes a desktop with a closed port from its Service.
func readinessProbe() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     tcpProbe(),
		PeriodSeconds:    5,
		TimeoutSeconds:   2,
		FailureThreshold: 3,
	}
}

// livenessProbe restarts a desktop whose port is closed for two minutes. The kernel accepts
// connections of a busy or slow process, so that it is not restarted.
func livenessProbe() *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     tcpProbe(),
		PeriodSeconds:    20,
		TimeoutSeconds:   10,
		FailureThreshold: 6,
	}
}

// tcpProbe only requires an open port: what a desktop serves on "/" may require a login.
func tcpProbe() corev1.ProbeHandler {
	return corev1.ProbeHandler{
		TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(PortName)},
	}
}
