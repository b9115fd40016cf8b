package render

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// tcpProbe only requires an open port: what a desktop serves on "/" may require a login.
func tcpProbe(period, timeout, failures int32) *corev1.Probe {
	return probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(PortName)}}, period, timeout, failures)
}

func httpProbe(path string, port, period, timeout, failures int32) *corev1.Probe {
	return probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: path, Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTP,
	}}, period, timeout, failures)
}

// probe returns a probe with a period and a timeout in seconds, and how many failures in a
// row count.
func probe(handler corev1.ProbeHandler, period, timeout, failures int32) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: handler, PeriodSeconds: period, TimeoutSeconds: timeout, FailureThreshold: failures}
}

// wholeSeconds rounds up, to at most the maximum of a probe's fields.
func wholeSeconds(d time.Duration) int32 {
	return int32(min(math.Ceil(d.Seconds()), math.MaxInt32))
}
