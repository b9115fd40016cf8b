package reconnect

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// unansweredRetry is the least delay before a request without an answer is retried, jittered
// up to twice that.
const unansweredRetry = time.Second

// Config returns a copy of the configuration for the client of a cache: a GET request without
// an answer is retried until it has one, or its context ends.
func Config(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &transport{next: next, retry: unansweredRetry}
	})
	return cfg
}

// NewCache returns a cache that follows the API server soon after an outage.
func NewCache(cfg *rest.Config, options cache.Options) (cache.Cache, error) {
	cfg = Config(cfg)
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the cache's client: %w", err)
	}
	options.HTTPClient = client
	return cache.New(cfg, options)
}

// transport retries GET requests without an answer. It returns any answer to the caller.
type transport struct {
	next    http.RoundTripper
	retry   time.Duration
	failing atomic.Bool
}

// RoundTrip retries until there is an answer, or the request's context ends.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	for {
		response, err := t.next.RoundTrip(request)
		if err == nil && t.failing.CompareAndSwap(true, false) {
			log.FromContext(request.Context()).Info("The API server is reachable again")
		}
		if err == nil || request.Method != http.MethodGet || !unanswered(err) {
			return response, err
		}
		if t.failing.CompareAndSwap(false, true) {
			log.FromContext(request.Context()).Info("The API server is not reachable, will retry", "reason", err.Error())
		}
		select {
		case <-time.After(wait.Jitter(t.retry, 1)):
		case <-request.Context().Done():
			return nil, err
		}
	}
}

// WrappedRoundTripper returns the transport that is wrapped.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// unanswered reports whether a request failed without an answer.
func unanswered(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}
