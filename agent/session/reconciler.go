package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// Dependencies are what the steps need of the agent and its member.
type Dependencies struct {
	// Client reads from caches that hold what CacheByObject selects, and writes to the
	// member's API server. By default the manager's.
	Client client.Client
	// APIReader reads from the API server itself. By default the manager's.
	APIReader client.Reader
	// Recorder of events on assignments. By default the manager's.
	Recorder events.EventRecorder
	// Clock of the member. By default the real one.
	Clock clock.PassiveClock
	// Trace of sessions. Without it none is traced.
	Trace *tracing.Tracer
	// Nodes of the member. Without it none is ever lost.
	Nodes Nodes
	// Activity of desktops. Without it none is probed.
	Activity Activity
	// ServerVersion of the member's API server. Without it, it is no older than this
	// agent's.
	ServerVersion func() (*version.Info, error)
	// Lease of the hub. Without it no desktop is guarded.
	Lease Lease
	// GuardKey is the key by which guards and gates know the agent.
	GuardKey func() string
	// Options are those of SetupWithManager.
	Options Options

	routes *children.RouteWatch
}

// Reconciler reconciles the SessionAssignments of one member.
type Reconciler struct {
	*Dependencies
	pods      *podStep
	time      *timekeeper
	status    *statusWriter
	finalizer *finalizer
	memories  memories
	children  *children.Manager
}

// New returns a Reconciler. SetupWithManager fills in the dependencies that have a
// default.
func New(dependencies Dependencies) *Reconciler {
	d := &dependencies
	d.routes = &children.RouteWatch{}
	r := &Reconciler{Dependencies: d, pods: &podStep{Dependencies: d}, time: &timekeeper{d}, status: &statusWriter{d}}
	r.finalizer = &finalizer{Dependencies: d, pods: r.pods, time: r.time, status: r.status}
	return r
}

// Nodes knows how the member's nodes are.
type Nodes interface {
	Node(name string) observe.Node
}

// step is a part of a pass. Steps do not depend on each other's success: the
// error of one must not keep the others from being done.
type step struct {
	name string
	run  func(context.Context, *pass) error
}

// pass is one reconcile of one assignment.
type pass struct {
	// assignment is the pass's own copy of what the cache has.
	assignment *api.SessionAssignment
	children   *children.Set
	memory     *memory
	now        time.Time
	// walk is the trace that the session is in.
	walk tracing.Point
	// found collects the children, for observe.
	found observe.Found
	// network is what rendering must know of the member.
	network render.Network
	// homeIsOurs: there is no home, or its claim is this session's.
	homeIsOurs bool
	// configIsOurs: there is no config, or its ConfigMap is this session's and as
	// it should be.
	configIsOurs bool
	// secretsAreSent: all Secrets that the hub sends are there as they were sent.
	secretsAreSent bool
	// isolated is set once the NetworkPolicy is in place, or the template wants none.
	isolated bool
	// fencing is what mode Fence means for it now.
	fencing fencing
	// ending is why the desktop must not run though the assignment says so, such
	// as a time limit; nil: it may.
	ending *ending
	// failure is why a step gives up the session's attempt; nil: it does not. It
	// is written before the Pod is removed.
	failure *api.Failure
	// left says what is left of a withdrawn assignment besides its Pods.
	left []string
	// after is when to look again though nothing happens; zero: never.
	after time.Duration
}

// ending is what PodReady says of a desktop that must not run.
type ending struct {
	reason, message string
}

// RequeueWithin asks for another pass after at most d.
func (p *pass) RequeueWithin(d time.Duration) {
	if d > 0 && (p.after == 0 || d < p.after) {
		p.after = d
	}
}

// RemovalDenied records why the API server denies the removal of a child.
func (p *pass) RemovalDenied(why string) {
	p.found.Denied = why
}

// Reconcile brings the children of one assignment to what it says.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var a api.SessionAssignment
	if err := r.Client.Get(ctx, req.NamespacedName, &a); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.memories.forget(req.NamespacedName)
			r.time.stopAsking(req.NamespacedName)
			return ctrl.Result{}, r.pods.releaseOrphans(ctx, req.NamespacedName)
		}
		return ctrl.Result{}, fmt.Errorf("reading the assignment: %w", err)
	}
	p := &pass{assignment: &a, memory: r.memories.of(&a), now: r.Clock.Now(), walk: r.walkOf(&a)}
	p.children = r.children.Of(p.assignment, p.memory.children, p.now, p.walk, p)
	if err := r.run(ctx, p); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: p.after}, nil
}

func (r *Reconciler) run(ctx context.Context, p *pass) error {
	if !p.assignment.DeletionTimestamp.IsZero() {
		return r.finalizer.finalize(ctx, p)
	}
	if err := r.ensureMarks(ctx, p); err != nil {
		return err
	}
	p.memory.begin(p.assignment.Spec.Attempt)
	if err := r.surroundings(ctx, p); err != nil {
		return err
	}
	var errs []error
	for _, s := range []step{
		{"home", r.home},
		{"config", r.config},
		{"secrets", r.secrets},
		{"isolation", r.isolate},
		{"fence", r.fence},
		{"time", r.time.timeout},
		{"pod", r.pods.pod},
		{"idleness", r.time.idle},
		{"reach", r.reach},
	} {
		if err := s.run(ctx, p); err != nil {
			errs = append(errs, fmt.Errorf("reconciling the %s: %w", s.name, err))
		}
	}
	if len(errs) > 0 {
		// What could not be read can't be reported: a child that is there
		// would be said to be missing.
		return errors.Join(errs...)
	}
	r.status.tracePod(p)
	status := observe.Status(p.assignment, p.found, p.now)
	status.Guarded = p.fencing.guarded
	r.status.judge(p, &status)
	r.time.account(ctx, p, &status)
	return r.status.report(ctx, p, status)
}

// ensureMarks puts back the finalizer and labels that somebody took from the
// assignment: the agent makes its own with them. What it says is the hub's to
// put back.
func (r *Reconciler) ensureMarks(ctx context.Context, p *pass) error {
	marks := map[string]string{
		api.LabelManagedBy:  api.ManagedBy,
		api.LabelSessionUID: string(p.assignment.Spec.Session.UID),
	}
	if controllerutil.ContainsFinalizer(p.assignment, api.AssignmentFinalizer) && children.Labeled(p.assignment, marks) {
		return nil
	}
	before := p.assignment.DeepCopy()
	controllerutil.AddFinalizer(p.assignment, api.AssignmentFinalizer)
	p.assignment.Labels = labels.Merge(p.assignment.Labels, marks)
	children.CountWrite(kindAssignment, "mark")
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, p.assignment, patch); err != nil {
		return fmt.Errorf("putting back the assignment's finalizer and labels: %w", err)
	}
	return nil
}
