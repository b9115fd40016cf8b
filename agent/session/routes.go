package session

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
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups=gateway.networking.k8s.io,roleName=vdi-agent-sessions,resources=httproutes,verbs=get;list;watch;create;patch;delete

// notServed and mayNotRead are why there are no HTTPRoutes.
const (
	notServed  = "the cluster has no HTTPRoutes: install the Gateway API"
	mayNotRead = "the agent may not read HTTPRoutes: give it the role that it is shipped with"
)

// routesRetry is how often it is looked whether the Gateway API was installed.
const routesRetry = 10 * time.Second

var httpRoutes = childKind[*gatewayv1.HTTPRoute]{
	kind:       kindRoute,
	empty:      func() *gatewayv1.HTTPRoute { return &gatewayv1.HTTPRoute{} },
	stranger:   strangerTo[*gatewayv1.HTTPRoute],
	align:      alignRoute,
	expendable: true,
}

// route makes the HTTPRoute where the member has a Gateway. Where it has none,
// one that is left from before is removed.
func (r *Reconciler) route(ctx context.Context, p *pass) error {
	wanted := p.network.Gateway != nil
	problem, err := r.routes.open(ctx, r.APIReader, p.assignment.Namespace, p.now, wanted)
	switch {
	case err != nil || problem != nil && !wanted:
		return err
	case problem != nil:
		p.found.RouteProblem = problem
		p.again(routesRetry)
		return nil
	}
	p.found.Route, p.found.RouteProblem, err = keep(ctx, r, p, httpRoutes, render.HTTPRoute(p.assignment, p.network))
	return err
}

// routeWatch begins to watch HTTPRoutes once the member has them: their API may
// be installed later than the agent, or never. A cache that is asked for a kind
// that is not served, or that it may not read, would block.
type routeWatch struct {
	// start the watch, and return what reads from it; nil: there is nothing to
	// start, and the reconciler's client reads them.
	start func() (client.Reader, error)

	mu      sync.Mutex
	opened  bool
	reader  client.Reader
	askedAt time.Time
	problem *observe.Problem
}

// open returns nil once HTTPRoutes can be read, and the problem until then. It
// asks the API server now and then where they are wanted, and else once.
func (w *routeWatch) open(ctx context.Context, live client.Reader, namespace string, now time.Time, wanted bool) (*observe.Problem, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opened {
		return nil, nil
	}
	if w.problem != nil && (!wanted || now.Sub(w.askedAt) < routesRetry) {
		return w.problem, nil
	}
	err := live.List(ctx, &gatewayv1.HTTPRouteList{}, client.InNamespace(namespace), client.Limit(1))
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		w.problem = noRoutes(notServed)
	case apierrors.IsForbidden(err):
		w.problem = noRoutes(mayNotRead)
	case err != nil:
		return nil, fmt.Errorf("looking for HTTPRoutes: %w", err)
	default:
		return nil, w.begin()
	}
	w.askedAt = now
	return w.problem, nil
}

// begin is called with the lock held.
func (w *routeWatch) begin() error {
	if w.start != nil {
		reader, err := w.start()
		if err != nil {
			return fmt.Errorf("watching HTTPRoutes: %w", err)
		}
		w.reader = reader
	}
	w.opened, w.problem = true, nil
	return nil
}

// from is where a kind is read from.
func (r *Reconciler) from(k kind) client.Reader {
	if k != kindRoute {
		return r.Client
	}
	r.routes.mu.Lock()
	defer r.routes.mu.Unlock()
	if r.routes.reader != nil {
		return r.routes.reader
	}
	return r.Client
}

func noRoutes(why string) *observe.Problem {
	return &observe.Problem{Reason: api.ReasonApplyFailed, Message: "The desktop is to be reached through a Gateway, and " + why + "."}
}
