package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// referenceSets is how many sets of a Pod, a PVC, a Service and an Ingress a bare client writes a
	// second on the machine of the bounds. On a slower one, bounds of times and CPU are as much wider.
	// It wrote 54 to 66 into control planes whose nodes, schedulers and kubelets then run the Pods. A
	// machine where an API server alone takes 110 writes 13 to 27 of them (the two bare loops of make
	// scale): about a quarter.
	referenceSets = 240
	// measuredSets are written by measuredWorkers at a time.
	measuredSets, measuredWorkers = 300, 32
	machineNamespace              = "machine"
)

// wider returns a bound of a time or of CPU for this machine.
func wider[T float64 | time.Duration](f *fleet, bound T) T { return T(float64(bound) * f.slowness) }

// slownessOf measures how many times slower this machine is than that of the bounds, at least 1, by an
// API server without other load.
func slownessOf(ctx context.Context, hub client.Client) (float64, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: machineNamespace}}
	if err := hub.Create(ctx, namespace); err != nil {
		return 0, fmt.Errorf("creating a namespace: %w", err)
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := hub.Get(ctx, client.ObjectKey{Namespace: machineNamespace, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return 0, fmt.Errorf("waiting for the ServiceAccount that Pods need: %w", err)
	}
	began := time.Now()
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(measuredWorkers)
	for i := range measuredSets {
		group.Go(func() error { return writeSet(gctx, hub, fmt.Sprintf("set-%03d", i)) })
	}
	if err := group.Wait(); err != nil {
		return 0, fmt.Errorf("measuring the machine: %w", err)
	}
	rate := measuredSets / time.Since(began).Seconds()
	slowness := max(1, math.Round(10*referenceSets/rate)/10)
	fmt.Printf("  a bare client writes %.0f sets of Pod, PVC, Service and Ingress a second here, %d on the machine of the bounds: those of times and CPU are %.1f times as wide\n",
		rate, referenceSets, slowness)
	return slowness, hub.Delete(ctx, namespace)
}

func writeSet(ctx context.Context, hub client.Client, name string) error {
	meta := metav1.ObjectMeta{Namespace: machineNamespace, Name: name, Labels: map[string]string{"set": name}}
	for _, o := range []client.Object{
		&corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
		&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "desktop", Image: "example.com/desktop:1"}}, TerminationGracePeriodSeconds: ptr.To[int64](0),
		}},
		&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: meta.Labels, Ports: []corev1.ServicePort{{Port: 6901}},
		}},
		&networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: name, Port: networkingv1.ServiceBackendPort{Number: 6901}},
		}}},
	} {
		if err := hub.Create(ctx, o); err != nil {
			return fmt.Errorf("creating a %T: %w", o, err)
		}
	}
	return nil
}
