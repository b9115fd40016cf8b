package agent

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

	"github.com/vdi-fleet/vdi-fleet/agent/nsinformer"
)

// unansweredRetry is the least delay before a cache retries a request without an answer,
// jittered up to twice that.
const unansweredRetry = time.Second

// newCache returns the manager's cache, which reads only the agent's objects in admitted
// namespaces. It reconnects within two seconds once an API server is back: with client-go's
// informers, withdrawn sessions could run for up to a minute longer.
func newCache(cfg *rest.Config, options cache.Options) (cache.Cache, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &retryTransport{next: next, retry: unansweredRetry}
	})
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the cache's client: %w", err)
	}
	options.HTTPClient = client
	options.NewInformer = nsinformer.Cluster{
		Config: cfg, HTTPClient: client, Scheme: options.Scheme, Mapper: options.Mapper,
	}.NewInformer
	return cache.New(cfg, options)
}

// retryTransport retries GET requests without an answer. It returns any answer to the
// caller.
type retryTransport struct {
	next    http.RoundTripper
	retry   time.Duration
	failing atomic.Bool
}

// RoundTrip retries until there is an answer, or the request's context ends.
func (t *retryTransport) RoundTrip(request *http.Request) (*http.Response, error) {
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
func (t *retryTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// unanswered reports whether a request failed without an answer.
func unanswered(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}
