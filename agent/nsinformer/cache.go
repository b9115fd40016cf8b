package nsinformer

import (
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/vdi-fleet/vdi-fleet/proto/reconnect"
)

// NewCache returns a cache that reads the kinds of the agent's objects only in admitted
// namespaces. After an outage of the API server it reconnects soon, so that withdrawn
// sessions stop.
func NewCache(cfg *rest.Config, options cache.Options) (cache.Cache, error) {
	cfg = reconnect.Config(cfg)
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the cache's client: %w", err)
	}
	options.HTTPClient = client
	options.NewInformer = Cluster{Config: cfg, HTTPClient: client, Scheme: options.Scheme, Mapper: options.Mapper}.NewInformer
	return cache.New(cfg, options)
}
