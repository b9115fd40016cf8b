package harness

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/vdi-fleet/vdi-fleet/test/harness/hubservice"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
	"github.com/vdi-fleet/vdi-fleet/test/harness/probe"
)

// The hub's replicas have Pods in its API server, and the Service that agents use, as in
// its chart; the controller manager writes the EndpointSlice. The Pods are on a node that
// is only an object, and hubservice.Kubelet reports whether they are Ready. The proxies of
// the agents follow the EndpointSlice, as kube-proxy would.
const (
	hubNode     = "hub"
	kubeletUser = "hub-kubelet"
)

func (h *Hub) pods() []hubservice.Pod {
	pods := make([]hubservice.Pod, 0, len(h.Replicas))
	for _, r := range h.Replicas {
		pods = append(pods, hubservice.Pod{Name: r.PodName, LinkAddr: r.LinkAddr, ProbeAddr: r.ProbeAddr})
	}
	return pods
}

// addPods creates the Pods and the Service of the hub's chart.
func (h *Hub) addPods(ctx context.Context, chart []*unstructured.Unstructured) error {
	cp := h.ControlPlane
	if err := cp.AddNodes(ctx, kwok.NodeGroup{Count: 1, Prefix: hubNode}); err != nil {
		return err
	}
	for _, object := range chart {
		switch object.GetKind() + "/" + object.GetName() {
		case "ServiceAccount/vdi-hub", "Service/" + hubservice.Name:
			if err := cp.ApplyObject(ctx, object); err != nil {
				return err
			}
		}
	}
	for _, object := range chart {
		if object.GetKind() != "Deployment" || object.GetName() != hubservice.Name {
			continue
		}
		deployment := &appsv1.Deployment{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, deployment); err != nil {
			return fmt.Errorf("reading the hub's Deployment: %w", err)
		}
		for _, r := range h.Replicas {
			pod := r.pod(deployment)
			// The API server rejects the Pod until it has the Pod's service account.
			err := cp.APIServer.WaitUntil(ctx, func(ctx context.Context) error {
				_, err := cp.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
				if apierrors.IsAlreadyExists(err) {
					return nil
				}
				return err
			})
			if err != nil {
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

// startHubPods creates the Pods of the replicas, and what routes agents to them.
func (f *Fleet) startHubPods(ctx context.Context) error {
	chart, err := f.options.hubChart()
	if err != nil {
		return err
	}
	if err := f.Hub.addPods(ctx, chart); err != nil {
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
	// They outlive this call and end with Stop.
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.Hub.stop = cancel
	if f.detachedBy != "" {
		f.Hub.kubeconfig = kubeconfig
		process := f.process("hub-kubelet", f.detachedBy)
		process.Spec.Args = append([]string{"hub-kubelet", "--hub-kubeconfig=" + kubeconfig}, hubservice.Flags(f.Hub.pods())...)
		f.Hub.sidecars = append(f.Hub.sidecars, process)
		if err := process.Start(); err != nil {
			return err
		}
	} else {
		f.Hub.background.Go(func() { _ = hubservice.Kubelet(background, config, SystemNamespace, f.Hub.pods()) })
	}
	if f.Hub.Service, err = hubservice.Watch(background, config, SystemNamespace, f.Hub.pods()); err != nil {
		return err
	}
	cp.restored = append(cp.restored, f.Hub.Service.Restored)
	return nil
}

// stopHubPods ends what startHubPods has started in this process.
func (h *Hub) stopHubPods() {
	if h.stop != nil {
		h.stop()
		h.background.Wait()
	}
}

// waitServed waits until the Service resolves to a replica that listens.
func (h *Hub) waitServed(ctx context.Context) error {
	return poll(ctx, func(ctx context.Context) error {
		backend := h.Service.Backend()
		if backend == "" {
			return errors.Join(errors.New("the hub's Service has no endpoint: no replica has labeled its Pod"), diedUnexpectedly(h.processes()...))
		}
		return probe.Listening(ctx, backend)
	})
}
