package cluster

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

// memberCluster presents a member to controllers as a cluster.Cluster: its cache has what the agent
// reports, its client writes to the agent's outbox. The member is never dialed.
type memberCluster struct {
	scheme *runtime.Scheme
	cache  reader
	client client.Client
}

var _ cluster.Cluster = &memberCluster{}

func newMemberCluster(scheme *runtime.Scheme, reported *Cache, send func(protocol.Order) error) *memberCluster {
	return &memberCluster{scheme, reader{reported}, &memberClient{Reader: reader{reported}, scheme: scheme, cache: reported, send: send}}
}

// mapper knows the kind that members have.
var mapper = func() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(v1alpha1.GroupVersion.WithKind("SessionAssignment"), meta.RESTScopeNamespace)
	return m
}()

// Its methods implement cluster.Cluster.

func (c *memberCluster) GetHTTPClient() *http.Client                     { return nil }
func (c *memberCluster) GetConfig() *rest.Config                         { return &rest.Config{Host: "member.invalid"} }
func (c *memberCluster) GetCache() cache.Cache                           { return c.cache }
func (c *memberCluster) GetScheme() *runtime.Scheme                      { return c.scheme }
func (c *memberCluster) GetClient() client.Client                        { return c.client }
func (c *memberCluster) GetAPIReader() client.Reader                     { return c.cache }
func (c *memberCluster) GetFieldIndexer() client.FieldIndexer            { return c.cache }
func (c *memberCluster) GetRESTMapper() meta.RESTMapper                  { return mapper }
func (c *memberCluster) GetEventRecorder(string) events.EventRecorder    { return nil }
func (c *memberCluster) GetEventRecorderFor(string) record.EventRecorder { return nil }
func (c *memberCluster) Start(ctx context.Context) error                 { return c.cache.Start(ctx) }
