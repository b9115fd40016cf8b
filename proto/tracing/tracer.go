package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Attribute is an attribute of a span.
type Attribute = attribute.KeyValue

// The keys of the attributes of spans. None identifies a user, and none has content of a
// Secret.
const (
	Namespace  = attribute.Key("vdi.session.namespace")
	Session    = attribute.Key("vdi.session.name")
	SessionUID = attribute.Key("vdi.session.uid")
	Template   = attribute.Key("vdi.template")
	Member     = attribute.Key("vdi.member")
	Region     = attribute.Key("vdi.region")
	Policy     = attribute.Key("vdi.policy")
	Epoch      = attribute.Key("vdi.epoch")
	Run        = attribute.Key("vdi.run")
	// From and To are the states of a transition, Reason and Message its cause.
	From    = attribute.Key("vdi.from")
	To      = attribute.Key("vdi.to")
	Reason  = attribute.Key("vdi.reason")
	Message = attribute.Key("vdi.message")
	// Candidates of a placement, how many of them Fit, and the Score of the chosen one.
	Candidates = attribute.Key("vdi.placement.candidates")
	Fit        = attribute.Key("vdi.placement.fit")
	Score      = attribute.Key("vdi.placement.score")
	// Result of an order, Kind and Action of a write to a member.
	Result = attribute.Key("vdi.result")
	Kind   = attribute.Key("vdi.kind")
	Action = attribute.Key("vdi.action")
	Node   = attribute.Key("vdi.node")
)

// Span is a completed part of a lifecycle.
type Span struct {
	Name string
	// From and To are when it began and ended, by the clock of the process that recorded it.
	From, To time.Time
	// Kind of the span; default: SpanKindInternal.
	Kind trace.SpanKind
	// Failed is the reason for a failure; empty: it succeeded.
	Failed     string
	Attributes []Attribute
	// Previous is the root of the preceding run, for a root.
	Previous Point
}

// The kinds of the spans at the two ends of the link.
const (
	Sends    = trace.SpanKindProducer
	Receives = trace.SpanKindConsumer
)

// Tracer writes spans. A nil Tracer is off.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sampler  sdktrace.Sampler
}

// On reports whether spans are written at all. Callers check it before they compute what
// only a span needs.
func (t *Tracer) On() bool { return t != nil }

// Lifecycle returns the root of the trace of one run of a session; the zero Point if it
// is not traced.
func (t *Tracer) Lifecycle(session string, epoch, run int64) Point {
	if t == nil {
		return Point{}
	}
	id := LifecycleID(session, epoch, run)
	if t.sampler.ShouldSample(sdktrace.SamplingParameters{TraceID: id}).Decision != sdktrace.RecordAndSample {
		return Point{}
	}
	return root(id)
}

// Add writes a span as a child of a point.
func (t *Tracer) Add(parent Point, s Span) {
	if t == nil || !parent.Traced() {
		return
	}
	t.write(trace.ContextWithSpanContext(context.Background(), parent.context), &s)
}

// AddAs writes the span of a point: a child of parent, or a root if parent is the zero Point.
func (t *Tracer) AddAs(self, parent Point, s Span) {
	if t == nil || !self.Traced() {
		return
	}
	ctx := context.WithValue(context.Background(), pointKey{}, self)
	if parent.Traced() {
		ctx = trace.ContextWithSpanContext(ctx, parent.context)
	}
	t.write(ctx, &s)
}

func (t *Tracer) write(ctx context.Context, s *Span) {
	if s.From.After(s.To) {
		// The clocks differ, or one time is in whole seconds: no span ends before it begins.
		s.From = s.To
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(s.From), trace.WithSpanKind(s.Kind), trace.WithAttributes(s.Attributes...)}
	if s.Previous.Traced() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: s.Previous.context}))
	}
	_, span := t.tracer.Start(ctx, s.Name, options...)
	if s.Failed != "" {
		span.SetStatus(codes.Error, s.Failed)
	}
	span.End(trace.WithTimestamp(s.To))
}

// pointKey is the context key of a span's Point.
type pointKey struct{}

// generator returns the IDs of the context's Point, and random ones for other spans.
type generator struct{}

// NewIDs returns the IDs of a root; every root has a Point.
func (g generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	var id trace.TraceID
	if p, ok := ctx.Value(pointKey{}).(Point); ok {
		id = p.context.TraceID()
	}
	return id, g.NewSpanID(ctx, id)
}

func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) (id trace.SpanID) {
	if p, ok := ctx.Value(pointKey{}).(Point); ok {
		return p.context.SpanID()
	}
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
