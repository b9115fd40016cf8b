package metrics

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Rate limit of the reviews of callers. Valid tokens are cached for a minute, so that a
// Prometheus needs one or two reviews a minute; the limit is for invalid tokens.
const (
	reviewQPS   = 5
	reviewBurst = 20
)

// Options returns the options of the metrics server. With authentication it serves HTTPS, with
// a self-signed certificate, and checks by TokenReview and SubjectAccessReview that a caller
// may get /metrics. Without, it serves HTTP to every caller that reaches the address.
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
