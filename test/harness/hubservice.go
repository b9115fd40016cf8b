package harness

import (
	"context"
	"fmt"

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
	slices discoverylisters.EndpointSliceLister
	pods   []HubPod
}

// WatchHubService begins to watch, until ctx ends.
func WatchHubService(ctx context.Context, config *rest.Config, pods []HubPod) (*HubService, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("watching the hub's Service: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(SystemNamespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = discoveryv1.LabelServiceName + "=" + hubService
		}))
	slices := factory.Discovery().V1().EndpointSlices()
	// API servers that don't answer are what tests are made of.
	if err := slices.Informer().SetWatchErrorHandler(func(*cache.Reflector, error) {}); err != nil {
		return nil, fmt.Errorf("watching the hub's Service: %w", err)
	}
	factory.Start(ctx.Done())
	return &HubService{slices: slices.Lister(), pods: pods}, nil
}

// Backend is where a new connection goes, "" if nowhere.
func (s *HubService) Backend() string {
	slices, err := s.slices.List(labels.Everything())
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
