package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The hub's replicas have Pods in its API server, as its chart has them,
// and so has the Service that agents go by; its EndpointSlice is the controller
// manager's. The Pods are on a node that is an object and no more, and HubKubelet
// says whether they are Ready. The agents' proxies follow the EndpointSlice, as
// kube-proxy would.
const (
	hubNode     = "hub"
	hubService  = "vdi-hub"
	kubeletUser = "hub-kubelet"
)

// HubPod ties the Pod of a hub's replica to its process.
type HubPod struct {
	Name      string
	LinkAddr  string
	ProbeAddr string
}

// String is for the command line of a process that ParseHubPods.
func (p HubPod) String() string { return p.Name + "=" + p.LinkAddr + "=" + p.ProbeAddr }

// ParseHubPods reads what String has written.
func ParseHubPods(values []string) ([]HubPod, error) {
	pods := make([]HubPod, 0, len(values))
	for _, value := range values {
		parts := strings.Split(value, "=")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%q is not NAME=LINK=PROBE", value)
		}
		pods = append(pods, HubPod{Name: parts[0], LinkAddr: parts[1], ProbeAddr: parts[2]})
	}
	return pods, nil
}

func (f *Fleet) hubPods() []HubPod {
	pods := make([]HubPod, 0, len(f.Hub.Replicas))
	for _, r := range f.Hub.Replicas {
		pods = append(pods, HubPod{Name: r.PodName, LinkAddr: r.LinkAddr, ProbeAddr: r.ProbeAddr})
	}
	return pods
}

// addHubPods makes the Pods and the Service.
func (f *Fleet) addHubPods(ctx context.Context) error {
	cp := f.Hub.ControlPlane
	objects, err := f.hubChart()
	if err != nil {
		return err
	}
	if err := cp.AddNodes(ctx, NodeGroup{Count: 1, Prefix: hubNode}); err != nil {
		return err
	}
	for _, object := range objects {
		switch object.GetKind() + "/" + object.GetName() {
		case "ServiceAccount/vdi-hub", "Service/" + hubService:
			if err := cp.ApplyObject(ctx, object); err != nil {
				return err
			}
		}
	}
	for _, object := range objects {
		if object.GetKind() != "Deployment" {
			continue
		}
		deployment := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
			return fmt.Errorf("reading the hub's Deployment: %w", err)
		}
		for _, r := range f.Hub.Replicas {
			if err := cp.createPod(ctx, r.pod(deployment)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Replica) pod(deployment *appsv1.Deployment) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: SystemNamespace, Name: r.PodName, Labels: deployment.Spec.Template.Labels,
		},
		Spec: *deployment.Spec.Template.Spec.DeepCopy(),
	}
	pod.Spec.NodeName = hubNode + "-0"
	pod.Spec.AutomountServiceAccountToken = new(bool)
	return pod
}

// createPod waits for the API server to know the Pod's service account.
func (cp *ControlPlane) createPod(ctx context.Context, pod *corev1.Pod) error {
	return cp.APIServer.WaitUntil(ctx, func(ctx context.Context) error {
		_, err := cp.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return ignoreExists(err)
	})
}

// Probes of HubKubelet: a Pod whose process does not answer is no longer Ready
// after three of them.
const (
	probePeriod   = 500 * time.Millisecond
	probeTimeout  = time.Second
	probeFailures = 3
)

// HubKubelet says of each Pod whether its process is ready, until ctx ends. It
// does nothing else that a kubelet does: restarts are the test's.
func HubKubelet(ctx context.Context, config *rest.Config, pods []HubPod) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("starting the hub's kubelet: %w", err)
	}
	done := make(chan struct{})
	for i, pod := range pods {
		go func() {
			pod.keepStatus(ctx, client, i)
			done <- struct{}{}
		}()
	}
	for range pods {
		<-done
	}
	return nil
}

func (p HubPod) keepStatus(ctx context.Context, client kubernetes.Interface, index int) {
	const unsaid, ready, notReady = 0, 1, 2
	said, failures := unsaid, probeFailures
	for {
		probe, cancel := context.WithTimeout(ctx, probeTimeout)
		err := healthy(probe, p.ProbeAddr)
		cancel()
		is := ready
		if failures++; err == nil {
			failures = 0
		} else if failures >= probeFailures {
			is = notReady
		} else {
			is = said
		}
		// What could not be written is written at the next look.
		if is != said && p.writeStatus(ctx, client, index, is == ready) == nil {
			said = is
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(probePeriod):
		}
	}
}

func (p HubPod) writeStatus(ctx context.Context, client kubernetes.Interface, index int, ready bool) error {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	var conditions []corev1.PodCondition
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		conditions = append(conditions, corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now()})
	}
	pods := client.CoreV1().Pods(SystemNamespace)
	pod, err := pods.Get(ctx, p.Name, getOptions)
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
	// Nobody dials the address: the Pod's name leads to its process.
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

// startHubPods makes the Pods of the replicas, and what the proxies go by.
func (f *Fleet) startHubPods(ctx context.Context) error {
	if err := f.addHubPods(ctx); err != nil {
		return err
	}
	cp := f.Hub.ControlPlane
	kubeconfig, err := cp.KubeconfigFor(kubeletUser, "system:masters")
	if err != nil {
		return err
	}
	config, err := cp.ConfigFor(kubeletUser, "system:masters")
	if err != nil {
		return err
	}
	// They outlive this call, and end by Stop.
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.Hub.stop = cancel
	if f.options.detachedBy != "" {
		f.Hub.kubeconfig = kubeconfig
		process := f.process("hub-kubelet", f.options.detachedBy)
		process.Spec.Args = append([]string{"hub-kubelet", "--hub-kubeconfig=" + kubeconfig}, hubPodFlags(f.hubPods())...)
		f.Hub.sidecars = append(f.Hub.sidecars, process)
		if err := process.Start(); err != nil {
			return err
		}
	} else {
		f.Hub.background.Go(func() { _ = HubKubelet(background, config, f.hubPods()) })
	}
	if f.Hub.Service, err = WatchHubService(background, config, f.hubPods()); err != nil {
		return err
	}
	cp.restored = append(cp.restored, f.Hub.Service.Restored)
	return nil
}

func hubPodFlags(pods []HubPod) []string {
	var flags []string
	for _, pod := range pods {
		flags = append(flags, "--hub-pod="+pod.String())
	}
	return flags
}

// stopHubPods ends what startHubPods has started in this process.
func (h *Hub) stopHubPods() {
	if h.stop != nil {
		h.stop()
		h.background.Wait()
	}
}

// waitServed waits until the Service leads to a replica that listens.
func (f *Fleet) waitServed(ctx context.Context) error {
	return poll(ctx, func(ctx context.Context) error {
		backend := f.Hub.Service.Backend()
		if backend == "" {
			return errors.Join(errors.New("the hub's Service has no endpoint: no replica has labelled its Pod"), diedUnasked(f.hubProcesses()...))
		}
		return dialAddress(ctx, backend)
	})
}
