package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Point identifies a span, written or not, that other spans can be children of. The zero
// Point is of no trace.
type Point struct {
	context trace.SpanContext
}

// LifecycleID returns the ID of the trace of one run of a session, which is the same in
// every process.
func LifecycleID(session string, epoch, run int64) trace.TraceID {
	text := make([]byte, 0, 64)
	text = append(text, "vdi-fleet/walk/"...)
	text = append(text, session...)
	text = binary.BigEndian.AppendUint64(append(text, 0), uint64(epoch))
	text = binary.BigEndian.AppendUint64(text, uint64(run))
	sum := sha256.Sum256(text)
	return trace.TraceID(sum[:16])
}

// root returns the root of a trace.
func root(id trace.TraceID) Point { return at(id, "root") }

// at returns the span of a trace with a name.
func at(id trace.TraceID, name string) Point {
	sum := sha256.Sum256(append(id[:], name...))
	return Point{trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: trace.SpanID(sum[:8]), TraceFlags: trace.FlagsSampled, Remote: true,
	})}
}

// Traced reports whether spans at this point are written.
func (p Point) Traced() bool { return p.context.IsValid() && p.context.IsSampled() }

// Named returns the span of the same trace with a name. It is the same for the same name,
// so that one that is written again, after a restart, is the same span.
func (p Point) Named(name string) Point {
	if !p.Traced() {
		return Point{}
	}
	return at(p.context.TraceID(), name)
}

// traceParent is the header of W3C Trace Context.
const traceParent = "traceparent"

// String returns the point as a W3C traceparent, 55 characters; empty if it is not traced.
func (p Point) String() string {
	if !p.Traced() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), p.context), carrier)
	return carrier[traceParent]
}

// Parse parses a traceparent. It returns the zero Point for one that is malformed or not
// sampled.
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
