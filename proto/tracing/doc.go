// Package tracing is the OpenTelemetry trace of a session's walk, as hub and agent
// both write it: whose trace a span is in, how the decision to trace travels, and
// how spans leave the process.
//
// It is in neither of the two, since they must agree on it and never import each
// other: they meet over proto. It imports nothing of ours. Pure packages do not import it: what a span tells of
// them, such as how many candidates a placement had, is in what they return.
//
// # Whose trace
//
// A trace is one walk: what begins when a session is to run, and ends when that run
// is over. Reconciles are level-triggered, and one walk crosses processes, restarts
// and changes of leader, so nothing in memory can hold it together, and nothing
// may be written for it: writes per session are a promised figure. So
//
//   - the trace's ID derives from the session's UID, the epoch of its placement and
//     the run (WalkID): any leader of the hub comes to the same, and a run that is
//     resumed, retried or failed over is a trace of its own. A session lives for
//     days; one trace of days is what no backend keeps well.
//   - the root span's ID derives from the trace's. The root is written last, by the
//     leader whose write of the status ended the start, from times that the API
//     server has: Start takes them as they are recorded.
//   - spans whose parent is not of the same call are children of the root. It is the
//     one span that a restart can't lose, so that no other is left without a parent.
//   - to the agent goes a W3C traceparent, in an optional field of the assignment
//     that is sent anyway, and into an annotation of the SessionAssignment that is
//     stored anyway. It is no part of the spec's hash: switching tracing on or off
//     makes no order, and no write. An agent, too, goes on after a restart.
//
// # Who is traced
//
// The hub decides, by the ratio and the trace's ID, so that all leaders decide alike.
// A walk that is not traced has no traceparent: its assignment is not a byte longer,
// and the agent, which decides nothing, is silent about it.
//
// # What it costs
//
// A nil Tracer is off, and is all that there is unless an endpoint is given: its
// methods return at once and allocate nothing, and there is no goroutine and no
// connection. On, a span is put into a bounded queue of the SDK's batch processor,
// which drops what does not fit: a collector that is down or slow costs spans, never
// time of a reconcile. Traces are for looking at, not for accounts: what must be
// counted is a metric.
//
// The exporter is OpenTelemetry's own, over gRPC, with the variables OTEL_EXPORTER_*,
// OTEL_BSP_*, OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME as they are specified.
// k8s.io/component-base/tracing is not used: it speaks without TLS only, and has no
// way to choose a trace's ID.
package tracing
