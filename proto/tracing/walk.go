package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Point is a place in a trace that spans can be children of: a span, by its IDs,
// whether it is written yet or not. The zero Point is of no trace.
type Point struct {
	context trace.SpanContext
}

// WalkID derives the trace of one run of a session: the same wherever it is asked.
func WalkID(session string, epoch, run int64) trace.TraceID {
	text := make([]byte, 0, 64)
	text = append(text, "vdi-fleet/walk/"...)
	text = append(text, session...)
	text = binary.BigEndian.AppendUint64(append(text, 0), uint64(epoch))
	text = binary.BigEndian.AppendUint64(text, uint64(run))
	sum := sha256.Sum256(text)
	return trace.TraceID(sum[:16])
}

// root of a trace.
func root(id trace.TraceID) Point { return at(id, "root") }

// at is the span of a trace that a text names.
func at(id trace.TraceID, name string) Point {
	sum := sha256.Sum256(append(id[:], name...))
	return Point{trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: trace.SpanID(sum[:8]), TraceFlags: trace.FlagsSampled, Remote: true,
	})}
}

// Traced is whether spans at this point are written at all.
func (p Point) Traced() bool { return p.context.IsValid() && p.context.IsSampled() }

// Named is the span of the same trace that a text names: the same for the same text,
// so that one that is written again, after a restart, is the same span.
func (p Point) Named(name string) Point {
	if !p.Traced() {
		return Point{}
	}
	return at(p.context.TraceID(), name)
}

// traceParent is the header of W3C Trace Context.
const traceParent = "traceparent"

// String is the point as a W3C traceparent, 55 characters; empty where it is not
// traced.
func (p Point) String() string {
	if !p.Traced() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), p.context), carrier)
	return carrier[traceParent]
}

// Parse reads a traceparent. What can't be read, or says that it is not sampled, is
// the zero Point.
func Parse(text string) Point {
	if text == "" {
		return Point{}
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceParent: text})
	if p := (Point{trace.SpanContextFromContext(ctx)}); p.Traced() {
		return p
	}
	return Point{}
}
