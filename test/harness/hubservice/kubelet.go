package hubservice

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/vdi-fleet/vdi-fleet/test/harness/probe"
)

// Pod is the Pod of a hub replica, and the addresses of its process.
type Pod struct {
	Name      string
	LinkAddr  string
	ProbeAddr string
}

// String returns NAME=LINK=PROBE, which ParsePods reads.
func (p Pod) String() string { return p.Name + "=" + p.LinkAddr + "=" + p.ProbeAddr }

// ParsePods parses what String returns.
func ParsePods(values []string) ([]Pod, error) {
	pods := make([]Pod, 0, len(values))
	for _, value := range values {
		parts := strings.Split(value, "=")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%q is not NAME=LINK=PROBE", value)
		}
		pods = append(pods, Pod{Name: parts[0], LinkAddr: parts[1], ProbeAddr: parts[2]})
	}
	return pods, nil
}

// Flags returns the Pods as flags of the fleet command, for ParsePods.
func Flags(pods []Pod) []string {
	var flags []string
	for _, pod := range pods {
		flags = append(flags, "--hub-pod="+pod.String())
	}
	return flags
}

// The probes of Kubelet: after three failures in a row a Pod is no longer Ready.
const (
	probePeriod   = 500 * time.Millisecond
	probeTimeout  = time.Second
	probeFailures = 3
)

// Kubelet reports in the status of each Pod whether its process is ready, until ctx ends. It
// restarts nothing: the test does.
func Kubelet(ctx context.Context, config *rest.Config, namespace string, pods []Pod) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("starting the hub's kubelet: %w", err)
	}
	done := make(chan struct{})
	for i, pod := range pods {
		go func() {
			pod.keepStatus(ctx, client.CoreV1().Pods(namespace), i)
			done <- struct{}{}
		}()
	}
	for range pods {
		<-done
	}
	return nil
}

func (p Pod) keepStatus(ctx context.Context, pods typedcorev1.PodInterface, index int) {
	const unknown, ready, notReady = 0, 1, 2
	written, failures := unknown, probeFailures
	for {
		bounded, cancel := context.WithTimeout(ctx, probeTimeout)
		err := probe.Ready(bounded, p.ProbeAddr)
		cancel()
		is := ready
		if failures++; err == nil {
			failures = 0
		} else if failures >= probeFailures {
			is = notReady
		} else {
			is = written
		}
		// A failed write is repeated after the next probe.
		if is != written && p.writeStatus(ctx, pods, index, is == ready) == nil {
			written = is
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(probePeriod):
		}
	}
}

func (p Pod) writeStatus(ctx context.Context, pods typedcorev1.PodInterface, index int, ready bool) error {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	var conditions []corev1.PodCondition
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		conditions = append(conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now()})
	}
	pod, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	var containers []corev1.ContainerStatus
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		containers = append(containers, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: ready,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: pod.CreationTimestamp}},
		})
	}
	// The address is never dialed: Service resolves the name of the Pod.
	ip := fmt.Sprintf("10.244.0.%d", index+1)
	patch, err := json.Marshal(map[string]any{"status": corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: conditions, ContainerStatuses: containers,
	}})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
