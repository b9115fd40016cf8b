package cluster

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

// memberCluster presents a member to controllers as a cluster.Cluster: its cache has what
// the agent reports, its client writes to the agent's outbox. The member is never dialed.
type memberCluster struct {
	scheme *runtime.Scheme
	mapper meta.RESTMapper
	cache  cache.Cache
	client client.Client
}

var _ cluster.Cluster = &memberCluster{}

func newMemberCluster(scheme *runtime.Scheme, reported *Cache, send func(protocol.Order) error) (*memberCluster, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1alpha1.GroupVersion.WithKind("SessionAssignment"), meta.RESTScopeNamespace)
	c, err := cache.New(&rest.Config{Host: "member.invalid"}, cache.Options{
		Scheme: scheme,
		Mapper: mapper,
		NewInformer: func(_ toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(reported, obj, resync, indexers)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the member's cache: %w", err)
	}
	client := &memberClient{Reader: c, scheme: scheme, mapper: mapper, cache: reported, send: send}
	return &memberCluster{scheme: scheme, mapper: mapper, cache: c, client: client}, nil
}

// GetHTTPClient returns nil: there is nothing to dial.
func (c *memberCluster) GetHTTPClient() *http.Client { return nil }

// GetConfig returns a configuration without a reachable host.
func (c *memberCluster) GetConfig() *rest.Config { return &rest.Config{Host: "member.invalid"} }

// GetCache returns what the agent last reported.
func (c *memberCluster) GetCache() cache.Cache { return c.cache }

// GetScheme returns the hub's scheme.
func (c *memberCluster) GetScheme() *runtime.Scheme { return c.scheme }

// GetClient returns a client that reads the cache and writes to the outbox.
func (c *memberCluster) GetClient() client.Client { return c.client }

// GetFieldIndexer indexes the cache.
func (c *memberCluster) GetFieldIndexer() client.FieldIndexer { return c.cache }

// GetEventRecorderFor returns a recorder that drops events: the agent records those of its
// member.
func (c *memberCluster) GetEventRecorderFor(string) record.EventRecorder {
	return &record.FakeRecorder{}
}

// GetEventRecorder returns a recorder that drops events.
func (c *memberCluster) GetEventRecorder(string) events.EventRecorder { return &events.FakeRecorder{} }

// GetRESTMapper returns a mapper of SessionAssignment alone.
func (c *memberCluster) GetRESTMapper() meta.RESTMapper { return c.mapper }

// GetAPIReader returns the cache: there is no API server to read.
func (c *memberCluster) GetAPIReader() client.Reader { return c.cache }

// Start runs the cache until the context ends.
func (c *memberCluster) Start(ctx context.Context) error { return c.cache.Start(ctx) }
