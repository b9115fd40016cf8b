package children

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// RoutesRetry is how often to check whether the Gateway API was installed.
const RoutesRetry = 10 * time.Second

// notServed and notPermitted are why there are no HTTPRoutes.
const (
	notServed    = "the cluster has no HTTPRoutes: install the Gateway API"
	notPermitted = "the agent has no permission to read HTTPRoutes: apply the roles of its chart"
)

// RouteWatch starts to watch HTTPRoutes once the member serves them: their API may be
// installed later than the agent, or never, and a cache would block.
type RouteWatch struct {
	// Start starts the watch, and returns its reader.
	Start func() (client.Reader, error)

	mu sync.Mutex
	// reader is set once the watch has started.
	reader    client.Reader
	checkedAt time.Time
	problem   *observe.Problem
}

// OpenRoutes returns nil once HTTPRoutes can be read, and the problem until then. It checks
// the API server every RoutesRetry if they are wanted, and otherwise once.
func (s *Set) OpenRoutes(ctx context.Context, wanted bool) (*observe.Problem, error) {
	w := s.Routes
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reader != nil {
		return nil, nil
	}
	if w.problem != nil && (!wanted || s.Now.Sub(w.checkedAt) < RoutesRetry) {
		return w.problem, nil
	}
	err := s.Live.List(ctx, &gatewayv1.HTTPRouteList{}, client.InNamespace(s.Assignment.Namespace), client.Limit(1))
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		w.problem = noRoutes(notServed)
	case apierrors.IsForbidden(err):
		w.problem = noRoutes(notPermitted)
	case err != nil:
		return nil, fmt.Errorf("listing HTTPRoutes: %w", err)
	default:
		reader, err := w.Start()
		if err != nil {
			return nil, fmt.Errorf("watching HTTPRoutes: %w", err)
		}
		w.reader, w.problem = reader, nil
	}
	w.checkedAt = s.Now
	return w.problem, nil
}

// read returns the reader of HTTPRoutes once they are open.
func (w *RouteWatch) read() client.Reader {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reader
}

func noRoutes(why string) *observe.Problem {
	return &observe.Problem{Reason: api.ReasonApplyFailed, Message: "The desktop requires a Gateway, and " + why + "."}
}
