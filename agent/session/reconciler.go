package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/vdi-fleet/vdi-fleet/agent/fence"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// Dependencies of the steps.
type Dependencies struct {
	// Client reads from caches with the objects of CacheByObject, and writes to the member's
	// API server.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Recorder of events on assignments.
	Recorder events.EventRecorder
	// Clock of the member.
	Clock clock.PassiveClock
	// Trace of sessions. Without it none is traced.
	Trace *tracing.Tracer
	// Nodes of the member.
	Nodes Nodes
	// Growth of the member's node groups. Without it there are none.
	Growth Growth
	// Activity of desktops: SetupWithManager sets it.
	Activity Activity
	// ServerVersion of the member's API server.
	ServerVersion func() (*version.Info, error)
	// Lease of the hub.
	Lease Lease
	// Door of the member; nil if it has none.
	Door Door
	// Reconciled is called after each reconcile of an assignment that does not wait for
	// Secrets.
	Reconciled func(assignment types.NamespacedName)
	// GuardKey returns the public key of the agent's answers to guards and gates.
	GuardKey func() string
	Options  Options

	routes *children.RouteWatch
}

// Reconciler reconciles the SessionAssignments of one member.
type Reconciler struct {
	*Dependencies
	pods *podStep
	// memories has the memory of each assignment, by its key.
	memories sync.Map
}

// New returns a Reconciler.
func New(dependencies Dependencies) *Reconciler {
	d := &dependencies
	d.Options, d.routes = d.Options.withDefaults(), &children.RouteWatch{}
	return &Reconciler{Dependencies: d, pods: &podStep{Dependencies: d}}
}

// Nodes returns the states of the member's nodes, an empty one for a name without a node.
type Nodes interface {
	Node(name string) observe.Node
}

// Growth returns what Pods without a node depend on.
type Growth interface {
	// Growth returns that of a Pod, an empty one for a Pod that depends on no node group.
	Growth(pod types.UID) observe.Growth
	// GrowthChanges receives an event, with the key of the assignment, when it changes.
	GrowthChanges() <-chan event.GenericEvent
}

// Door leads browsers to desktops.
type Door interface {
	// InForce reports whether it does so now: until then each desktop has its own Ingress or HTTPRoute. It waits until
	// that is known.
	InForce(ctx context.Context) (bool, error)
	// Changes receives an event when that changes.
	Changes() <-chan event.GenericEvent
}

// pass is one reconcile of one assignment.
type pass struct {
	*children.Set
	memory *memory
	// at is when it began.
	at observe.Instant
	// network is the member's, for agent/render.
	network render.Network
	// failed is set once a step has failed: what it does may be missing.
	failed    bool
	isolation isolation
	// lease is the hub's before the assignment was read, which may have been marked since.
	lease fence.Status
	// fencing is the effect of modes Fence and Hold.
	fencing fencing
	// ending is why the desktop must not run, such as a time limit, although the assignment
	// requires it.
	ending *observe.Problem
	// failure is why a step fails the session's attempt. It is written before the Pod is
	// removed.
	failure *api.Failure
	// left describes the remaining objects of a withdrawn assignment, Pods apart.
	left []string
}

// Reconcile reconciles one assignment and its children.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lease := r.Lease.Status()
	var a api.SessionAssignment
	if err := r.Client.Get(ctx, req.NamespacedName, &a); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.memories.Delete(req.NamespacedName)
			r.Activity.Forget(req.NamespacedName)
			return ctrl.Result{}, r.pods.releaseOrphans(ctx, req.NamespacedName)
		}
		return ctrl.Result{}, fmt.Errorf("reading the assignment: %w", err)
	}
	p := &pass{memory: r.memoryOf(&a), lease: lease}
	p.Set = &children.Set{
		Client: r.Client, Live: r.APIReader, Clock: r.Clock, Trace: r.Trace, Routes: r.routes,
		Assignment: &a, Memory: p.memory.children, Now: r.Clock.Now(), Span: tracing.Parse(a.Annotations[api.AnnotationTraceparent]),
	}
	p.at = r.instant(p)
	err := r.run(ctx, p)
	if err != nil || len(p.Found.Secrets) == 0 {
		r.Reconciled(req.NamespacedName)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.After}, nil
}

func (r *Reconciler) run(ctx context.Context, p *pass) error {
	if !p.Assignment.DeletionTimestamp.IsZero() {
		return finalizer{r.pods}.finalize(ctx, p)
	}
	if err := r.ensureMetadata(ctx, p); err != nil {
		return err
	}
	p.memory.begin(p.Assignment.Spec.Attempt)
	if err := r.memberNetwork(ctx, p); err != nil {
		return err
	}
	joinEndpoint := r.endpoint(ctx, p)
	var errs []error
	// An error of one step does not prevent the others, except that no Pod is created.
	for _, s := range []struct {
		name string
		run  func(context.Context, *pass) error
	}{
		{"home", r.home},
		{"config", r.config},
		{"secrets", r.secrets},
		{"fence", r.fence},
		{"timeout", r.timeout},
		{"isolation", r.isolate},
		{"pod", r.pods.pod},
		{"idle timeout", r.idle},
	} {
		if err := s.run(ctx, p); err != nil {
			p.failed = true
			errs = append(errs, fmt.Errorf("reconciling the %s: %w", s.name, err))
		}
	}
	if err := joinEndpoint(); err != nil {
		errs = append(errs, fmt.Errorf("reconciling the endpoint: %w", err))
	}
	if len(errs) > 0 {
		// A child that could not be read must not be reported as missing.
		return errors.Join(errs...)
	}
	r.tracePod(p)
	status := observe.Status(p.Assignment, p.Found, p.Now)
	status.Guarded = p.fencing.guarded
	r.fail(p, &status)
	r.account(ctx, p, &status)
	return r.report(ctx, p, status)
}

// ensureMetadata restores the assignment's finalizer and labels, as agent/assignment sets them.
// The hub restores its spec.
func (r *Reconciler) ensureMetadata(ctx context.Context, p *pass) error {
	wanted := map[string]string{
		api.LabelManagedBy:  api.ManagedBy,
		api.LabelSessionUID: string(p.Assignment.Spec.Session.UID),
	}
	if controllerutil.ContainsFinalizer(p.Assignment, api.AssignmentFinalizer) && children.Labeled(p.Assignment, wanted) {
		return nil
	}
	before := p.Assignment.DeepCopy()
	controllerutil.AddFinalizer(p.Assignment, api.AssignmentFinalizer)
	p.Assignment.Labels = labels.Merge(p.Assignment.Labels, wanted)
	children.CountWrite(kindAssignment, "mark")
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, p.Assignment, patch); err != nil {
		return fmt.Errorf("restoring the assignment's finalizer and labels: %w", err)
	}
	return nil
}
