package harness

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

// HubService knows where the hub's Service leads to: the process whose Pod is
// among its ready endpoints. Like kube-proxy it goes on with what it knew while
// the API server is away.
type HubService struct {
	client kubernetes.Interface
	pods   []HubPod

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

// WatchHubService begins to watch, until ctx ends.
func WatchHubService(ctx context.Context, config *rest.Config, pods []HubPod) (*HubService, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watching the hub's Service: %w", err)
	}
	s := &HubService{client: client, pods: pods, ends: ctx}
	if s.now, err = s.watch(); err != nil {
		return nil, err
	}
	return s, nil
}

// Restored watches again, once etcd was put back to an earlier time: the watch
// that there is waits for what comes after a version that is still to come. It
// returns when the API server has said what there is now.
func (s *HubService) Restored(ctx context.Context) error {
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

func (s *HubService) watch() (*sliceWatch, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, 0,
		informers.WithNamespace(SystemNamespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = discoveryv1.LabelServiceName + "=" + hubService
		}))
	slices := factory.Discovery().V1().EndpointSlices()
	// API servers that don't answer are what tests are made of.
	if err := slices.Informer().SetWatchErrorHandler(func(*cache.Reflector, error) {}); err != nil {
		return nil, fmt.Errorf("watching the hub's Service: %w", err)
	}
	ctx, stop := context.WithCancel(s.ends)
	factory.Start(ctx.Done())
	return &sliceWatch{slices: slices.Lister(), synced: slices.Informer().HasSynced, stop: stop}, nil
}

// Backend is where a new connection goes, "" if nowhere.
func (s *HubService) Backend() string {
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

func (s *HubService) address(endpoint *discoveryv1.Endpoint) string {
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

// backend is where an agent's connection goes.
func (h *Hub) backend() string {
	if h.Service == nil {
		return ""
	}
	return h.Service.Backend()
}
