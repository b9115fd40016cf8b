package cluster

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

// newMemberCluster presents a member to controllers as a cluster.Cluster: its cache has
// what the agent reports, its client writes to the agent's outbox. The member is never
// dialed: its host does not exist.
func newMemberCluster(scheme *runtime.Scheme, reported *Cache, send func(protocol.Order) error) (cluster.Cluster, error) {
	cl, err := cluster.New(&rest.Config{Host: "member.invalid"}, func(o *cluster.Options) {
		o.Scheme = scheme
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(v1alpha1.GroupVersion.WithKind("SessionAssignment"), meta.RESTScopeNamespace)
			return mapper, nil
		}
		o.Cache.NewInformer = func(_ toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(reported, obj, resync, indexers)
		}
		o.NewClient = func(config *rest.Config, options client.Options) (client.Client, error) {
			cached, err := client.New(config, options)
			return &memberClient{Client: cached, cache: reported, send: send}, err
		}
	})
	if err != nil {
		return nil, fmt.Errorf("creating the member's cluster: %w", err)
	}
	return cl, nil
}
