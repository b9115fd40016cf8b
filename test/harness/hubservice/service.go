package hubservice

import (
	"context"
	"fmt"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Name is the name of the hub's Service.
const Name = "vdi-hub"

// Service resolves the hub's Service to the process whose Pod is among its ready
// endpoints. Like kube-proxy it uses the last known endpoints while the API server is
// away.
type Service struct {
	client    kubernetes.Interface
	namespace string
	pods      []Pod

	mu   sync.Mutex
	ends context.Context
	now  *sliceWatch
}

// sliceWatch is one watch of the Service's EndpointSlices.
type sliceWatch struct {
	slices discoverylisters.EndpointSliceLister
	synced cache.InformerSynced
	stop   context.CancelFunc
}

// Watch watches the Service until ctx ends.
func Watch(ctx context.Context, config *rest.Config, namespace string, pods []Pod) (*Service, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watching the hub's Service: %w", err)
	}
	s := &Service{client: client, namespace: namespace, pods: pods, ends: ctx}
	if s.now, err = s.watch(); err != nil {
		return nil, err
	}
	return s, nil
}

// Restored replaces the watch after etcd was restored to an earlier state: the old watch
// waits for a resource version that is still to come. It returns once the new one has
// synced.
func (s *Service) Restored(ctx context.Context) error {
	next, err := s.watch()
	if err != nil {
		return err
	}
	if !cache.WaitForCacheSync(ctx.Done(), next.synced) {
		next.stop()
		return fmt.Errorf("watching the hub's Service again: %w", ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.stop()
	s.now = next
	return nil
}

func (s *Service) watch() (*sliceWatch, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0,
		informers.WithNamespace(s.namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = discoveryv1.LabelServiceName + "=" + Name
		}))
	slices := factory.Discovery().V1().EndpointSlices()
	// Tests stop API servers: these errors are expected.
	if err := slices.Informer().SetWatchErrorHandler(func(*cache.Reflector, error) {}); err != nil {
		return nil, fmt.Errorf("watching the hub's Service: %w", err)
	}
	ctx, stop := context.WithCancel(s.ends)
	factory.Start(ctx.Done())
	return &sliceWatch{slices: slices.Lister(), synced: slices.Informer().HasSynced, stop: stop}, nil
}

// Backend returns the address for a new connection, "" if the Service has no endpoint.
func (s *Service) Backend() string {
	s.mu.Lock()
	lister := s.now.slices
	s.mu.Unlock()
	slices, err := lister.List(labels.Everything())
	if err != nil {
		return ""
	}
	for _, slice := range slices {
		for i := range slice.Endpoints {
			if address := s.address(&slice.Endpoints[i]); address != "" {
				return address
			}
		}
	}
	return ""
}

func (s *Service) address(endpoint *discoveryv1.Endpoint) string {
	if ready := endpoint.Conditions.Ready; ready == nil || !*ready || endpoint.TargetRef == nil {
		return ""
	}
	for _, pod := range s.pods {
		if pod.Name == endpoint.TargetRef.Name {
			return pod.LinkAddr
		}
	}
	return ""
}
