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

// Attribute of a span.
type Attribute = attribute.KeyValue

// The attributes that spans have. None is of a user, and none has content of a
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
	// From and To are the states of a transition, Reason and Message why.
	From    = attribute.Key("vdi.from")
	To      = attribute.Key("vdi.to")
	Reason  = attribute.Key("vdi.reason")
	Message = attribute.Key("vdi.message")
	// Candidates of a placement, how many of them Fit, and the Score of the one that
	// was chosen.
	Candidates = attribute.Key("vdi.placement.candidates")
	Fit        = attribute.Key("vdi.placement.fit")
	Score      = attribute.Key("vdi.placement.score")
	// Result of an order, Kind and Action of a write to a member.
	Result = attribute.Key("vdi.result")
	Kind   = attribute.Key("vdi.kind")
	Action = attribute.Key("vdi.action")
	Node   = attribute.Key("vdi.node")
)

// Span is what is told of a stretch of a walk once it is over.
type Span struct {
	Name string
	// From and To are when it began and ended, by the clock of who says so.
	From, To time.Time
	// Kind is SpanKindInternal where it is nothing.
	Kind trace.SpanKind
	// Failed says why it did not succeed; empty: it did.
	Failed     string
	Attributes []Attribute
	// Before is the walk that this one follows, for a root.
	Before Point
}

// The kinds of the spans at both ends of the link.
const (
	Sends    = trace.SpanKindProducer
	Receives = trace.SpanKindConsumer
)

// Tracer writes spans. A nil one is off.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sampler  sdktrace.Sampler
}

// On is whether spans are written at all. What is only for a span is not worked out
// before this was asked.
func (t *Tracer) On() bool { return t != nil }

// Walk is the root of the trace of one run of a session; the zero Point where it is
// not traced.
func (t *Tracer) Walk(session string, epoch, run int64) Point {
	if t == nil {
		return Point{}
	}
	id := WalkID(session, epoch, run)
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

// AddAs writes the span that is at a point: a child of another, or a root where that
// is the zero Point.
func (t *Tracer) AddAs(self, parent Point, s Span) {
	if t == nil || !self.Traced() {
		return
	}
	ctx := context.WithValue(context.Background(), chosen{}, self)
	if parent.Traced() {
		ctx = trace.ContextWithSpanContext(ctx, parent.context)
	}
	t.write(ctx, &s)
}

func (t *Tracer) write(ctx context.Context, s *Span) {
	if s.From.After(s.To) {
		// Of clocks that differ, or times to the second: no span ends before it begins.
		s.From = s.To
	}
	options := []trace.SpanStartOption{trace.WithTimestamp(s.From), trace.WithSpanKind(s.Kind), trace.WithAttributes(s.Attributes...)}
	if s.Before.Traced() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: s.Before.context}))
	}
	_, span := t.tracer.Start(ctx, s.Name, options...)
	if s.Failed != "" {
		span.SetStatus(codes.Error, s.Failed)
	}
	span.End(trace.WithTimestamp(s.To))
}

// chosen is the key of the Point, in a context, that a span is to be at.
type chosen struct{}

// generator gives spans the IDs that were chosen for them, and others by chance.
type generator struct{}

// NewIDs is asked for roots alone, all of which are chosen.
func (g generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	var id trace.TraceID
	if p, ok := ctx.Value(chosen{}).(Point); ok {
		id = p.context.TraceID()
	}
	return id, g.NewSpanID(ctx, id)
}

func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) (id trace.SpanID) {
	if p, ok := ctx.Value(chosen{}).(Point); ok {
		return p.context.SpanID()
	}
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
