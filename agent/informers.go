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

// unansweredRetry is how long after a request without an answer a cache retries, and on
// average half as long again.
const unansweredRetry = time.Second

// newCache returns the manager's cache, which holds our objects in admitted namespaces and
// requests no others. It reconnects within a second or two once an API server is back.
// client-go's informers would wait up to a minute, and so long the agent would not stop
// what the hub has withdrawn.
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
	next   http.RoundTripper
	retry  time.Duration
	silent atomic.Bool
}

// RoundTrip retries until there is an answer, or the request's context ends.
func (s *retryTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	for {
		response, err := s.next.RoundTrip(request)
		if err == nil && s.silent.CompareAndSwap(true, false) {
			log.FromContext(request.Context()).Info("The API server answers again")
		}
		if err == nil || request.Method != http.MethodGet || !unanswered(err) {
			return response, err
		}
		if s.silent.CompareAndSwap(false, true) {
			log.FromContext(request.Context()).Info("The API server does not answer, will ask again", "reason", err.Error())
		}
		select {
		case <-time.After(wait.Jitter(s.retry, 1)):
		case <-request.Context().Done():
			return nil, err
		}
	}
}

// WrappedRoundTripper returns the transport that is wrapped.
func (s *retryTransport) WrappedRoundTripper() http.RoundTripper { return s.next }

// unanswered reports whether there was no server to answer.
func unanswered(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}
