package children

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// ConflictRetry is the delay before the next reconcile after a conflict.
const ConflictRetry = 200 * time.Millisecond

// spanApply is the trace span of one write of a child.
const spanApply = "apply"

// Set is the children of one assignment in one reconcile.
type Set struct {
	// Client reads from the cache, Live from the API server.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	// Trace records no spans if it is nil.
	Trace  *tracing.Tracer
	Routes *RouteWatch
	// Assignment is a copy of the cache's.
	Assignment *api.SessionAssignment
	Memory     *Memory
	// Now is the time of the reconcile.
	Now time.Time
	// Span is the parent of the reconcile's spans; zero if the session is not traced.
	Span tracing.Point
	// Found are the children, for agent/observe.
	Found observe.Children
	// After is the delay before the next reconcile without an event; zero for none.
	After time.Duration
}

// Fork returns a Set for steps that run concurrently with those of s, for other kinds of
// children.
func (s *Set) Fork() *Set {
	fork := *s
	fork.Found, fork.After = observe.Children{}, 0
	return &fork
}

// Join adds when a fork that has ended requeues.
func (s *Set) Join(fork *Set) {
	s.RequeueWithin(fork.After)
	s.Found.Denied = cmp.Or(s.Found.Denied, fork.Found.Denied)
}

// RequeueWithin requeues the assignment after at most d.
func (s *Set) RequeueWithin(d time.Duration) {
	if d > 0 && (s.After == 0 || d < s.After) {
		s.After = d
	}
}

// Write counts and traces a write of a child.
func (s *Set) Write(kind, verb string, request func() error) error {
	CountWrite(kind, verb)
	began := s.Clock.Now()
	err := request()
	span := tracing.Span{Name: spanApply, From: began, To: s.Clock.Now(), Attributes: []tracing.Attribute{
		tracing.Kind.String(kind), tracing.Action.String(verb),
	}}
	if err != nil {
		span.Failed = err.Error()
	}
	s.Trace.Add(s.Span, span)
	return err
}

// patch writes the changes of a child, with an optimistic lock.
func (s *Set) patch(ctx context.Context, kind, verb string, before, after client.Object) error {
	return s.Write(kind, verb, func() error {
		return s.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}

// DenyRemoval records that the API server denies a removal, which is retried with backoff.
func (s *Set) DenyRemoval(ctx context.Context, kind string, err error) {
	log.FromContext(ctx).Info("The API server denies a removal", "kind", kind, "reason", err.Error())
	why := denied.Explain(err)
	s.Found.Denied = why
	s.refuse(kind, observe.Problem{Reason: api.ReasonApplyFailed, Message: why})
}

// refuse records a problem of a child, and requeues for the next try.
func (s *Set) refuse(kind string, problem observe.Problem) *observe.Problem {
	rejections.WithLabelValues(kind, problem.Reason).Inc()
	out, wait := s.Memory.of(kind).refuse(s.Assignment.Generation, problem, s.Now)
	s.RequeueWithin(wait)
	return out
}

// reader returns the reader of a kind.
func (s *Set) reader(kind string) client.Reader {
	if kind == nameRoute {
		return s.Routes.read()
	}
	return s.Client
}

// get returns an object, or nil if there is none.
func get[T client.Object](ctx context.Context, from client.Reader, k Kind[T], key client.ObjectKey) (T, error) {
	var none T
	have := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if err := from.Get(ctx, key, have); client.IgnoreNotFound(err) != nil {
		return none, fmt.Errorf("reading %s %s: %w", k.Name, key.Name, err)
	} else if err != nil {
		return none, nil
	}
	return have, nil
}
