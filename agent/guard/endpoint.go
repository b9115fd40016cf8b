package guard

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/fence"
	"github.com/vdi-fleet/vdi-fleet/agent/objects"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// serveTimeout limits one request.
	serveTimeout = 5 * time.Second
	// maxRequests is the number of concurrent requests. Others are refused: guards retry.
	maxRequests = 128
	// maxHeader is the most bytes of a request.
	maxHeader = 4 << 10
	// unfencedLease is the lease for the guard of a desktop that is not fenced any more.
	unfencedLease = 3 * time.Minute
	// keyRetry is the delay before the key is read again after a failure.
	keyRetry = time.Second
)

// EndpointOptions of an Endpoint.
type EndpointOptions struct {
	// Address to listen on.
	Address string
	// Namespace of the key.
	Namespace string
	// Live reads from the API server. Client writes there and reads assignments from the
	// manager's cache.
	Live   client.Reader
	Client client.Client
	// LeaseStatus returns the status of the hub's lease.
	LeaseStatus func() fence.Status
	// TimeFactor scales every timing.
	TimeFactor float64
	// KeyKnown is called once PublicKey returns the key.
	KeyKnown func()
	// Ordered reports whether this process was the first to store the assignment's epoch:
	// see assignment.Store.
	Ordered func(*v1alpha1.SessionAssignment) bool
}

// Endpoint answers guards how long their desktops may go on, and gates whether theirs may
// start. It is a manager.Runnable that needs leader election: only the leader has the lease.
type Endpoint struct {
	options EndpointOptions
	key     atomic.Pointer[ed25519.PrivateKey]
	// rates has a rate.Limiter for each assignment, so that one Pod can't keep the agent
	// busy with signing.
	rates *lru.Cache
	// affirmations has the number with which this process requested the hub's affirmation of
	// each assignment, and affirming the assignments whose number is being written.
	affirmations *lru.Cache
	affirming    sync.Map
	// busy has an item for each request that is being answered.
	busy chan struct{}
}

// NewEndpoint returns an Endpoint that Start runs.
func NewEndpoint(options EndpointOptions) *Endpoint {
	return &Endpoint{
		options: options, rates: lru.New(maxLimited), affirmations: lru.New(maxAffirmations), busy: make(chan struct{}, maxRequests),
	}
}

// NeedLeaderElection returns true: only the leader has the lease.
func (e *Endpoint) NeedLeaderElection() bool { return true }

// PublicKey returns the key by which guards verify answers, and "" until it is known.
func (e *Endpoint) PublicKey() string {
	if key := e.key.Load(); key != nil {
		return publicText(*key)
	}
	return ""
}

// Start serves until the context ends.
func (e *Endpoint) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("guard"))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.options.Address)
	if err != nil {
		return fmt.Errorf("listening for guards: %w", err)
	}
	return e.Serve(ctx, listener)
}

// Serve is Start on an existing listener.
func (e *Endpoint) Serve(ctx context.Context, listener net.Listener) error {
	go e.awaitKey(ctx)
	if err := serve(ctx, newLimitListener(listener, maxConnections, maxConnectionsPerAddress), e); err != nil {
		return fmt.Errorf("serving guards: %w", err)
	}
	return nil
}

// awaitKey reads the key, and retries. Until then no request is answered and no guard
// created.
func (e *Endpoint) awaitKey(ctx context.Context) {
	var logged sync.Once
	_ = wait.PollUntilContextCancel(ctx, keyRetry, true, func(ctx context.Context) (bool, error) {
		key, err := loadKey(ctx, objects.Store{Live: e.options.Live, Client: e.options.Client, Namespace: e.options.Namespace})
		if err == nil {
			e.key.Store(&key)
			e.options.KeyKnown()
		} else if ctx.Err() == nil {
			logged.Do(func() { log.FromContext(ctx).Error(err, "reading the key for answers to guards, will retry") })
		}
		return err == nil, nil
	})
}

// ServeHTTP answers one request.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case e.busy <- struct{}{}:
		defer func() { <-e.busy }()
	default:
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	q, ok := parseRequest(r.URL)
	if !ok || r.Method != http.MethodGet {
		http.Error(w, "not a request of a guard or a gate", http.StatusBadRequest)
		return
	}
	key := e.key.Load()
	if key == nil {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	left, code, why := e.answer(r.Context(), q)
	if code != http.StatusOK {
		http.Error(w, why, code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(sign(*key, q, left)); err != nil {
		log.FromContext(r.Context()).V(1).Info("A guard did not receive its answer", "reason", err.Error())
	}
}

// answer returns how long a desktop may go on, or the status code and reason of a refusal.
func (e *Endpoint) answer(ctx context.Context, q permissionRequest) (time.Duration, int, string) {
	// While the lease is valid, the cache shows each assignment that must be affirmed, so the
	// lease is read first.
	left := e.options.LeaseStatus().Left
	var a v1alpha1.SessionAssignment
	err := e.options.Client.Get(ctx, types.NamespacedName{Namespace: q.namespace, Name: q.name}, &a)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return 0, http.StatusServiceUnavailable, "the assignments can't be read"
	case err != nil, string(a.UID) != q.uid, !a.DeletionTimestamp.IsZero():
		return 0, http.StatusNotFound, "no such assignment"
	case !e.allow(q.uid, time.Now()):
		return 0, http.StatusTooManyRequests, "too many requests"
	case q.gate:
		return e.mayStart(ctx, &a)
	case a.Spec.FailoverMode != v1alpha1.FailoverFence:
		return time.Duration(float64(unfencedLease) * e.options.TimeFactor), http.StatusOK, ""
	case a.Spec.Lapse < a.Status.Lapse:
		return 0, http.StatusForbidden, "the hub has not affirmed the placement since the lease was last over"
	case left <= 0:
		return 0, http.StatusForbidden, "the hub's lease is over"
	default:
		return left, http.StatusOK, ""
	}
}
