package metrics

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Reviews of callers a second, and at once. Valid tokens are remembered for a
// minute, so that a Prometheus needs one or two reviews a minute; callers that
// invent tokens cannot pass on more than this to the API server.
const (
	reviewQPS   = 5
	reviewBurst = 20
)

// Options returns the options of the metrics server. With authentication it serves
// HTTPS, with a certificate of its own making, and asks the API server by
// TokenReview and SubjectAccessReview whether a caller may get /metrics. Without,
// it serves HTTP to everybody who reaches the address.
func Options(address string, authentication bool) server.Options {
	if !authentication {
		return server.Options{BindAddress: address}
	}
	return server.Options{BindAddress: address, SecureServing: true, FilterProvider: filter}
}

func filter(cfg *rest.Config, httpClient *http.Client) (server.Filter, error) {
	// The manager's own requests must not wait for those about its callers.
	cfg = rest.CopyConfig(cfg)
	cfg.RateLimiter, cfg.QPS, cfg.Burst = nil, reviewQPS, reviewBurst
	f, err := filters.WithAuthenticationAndAuthorization(cfg, httpClient)
	if err != nil {
		return nil, fmt.Errorf("preparing the authentication of metrics: %w", err)
	}
	return f, nil
}
