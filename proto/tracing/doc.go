// Package tracing writes the OpenTelemetry trace of a session's lifecycle, on hub and
// agent: which trace a span belongs to, how the decision to trace is propagated, and how
// spans are exported.
//
// It is shared, since hub and agent never import each other, and imports no other package
// of this module. Pure packages do not import it: their results contain what a span needs
// of them, such as the number of candidates of a placement.
//
// # Trace identity
//
// A trace is the lifecycle of one run: it begins when a session is to run, and ends when
// that run is over. Reconciles are level-triggered, and a lifecycle spans processes,
// restarts and changes of leader, so its state can't be kept in memory, and nothing may
// be written for it: the number of writes per session is guaranteed. So
//
//   - the trace's ID derives from the session's UID, the epoch of its placement and the
//     run (LifecycleID): every leader of the hub computes the same one, and a run that is
//     resumed, retried or failed over is a separate trace. A session lives for days,
//     which is too long for one trace in most backends.
//   - the root span's ID derives from the trace's. The root is written last, by the leader that
//     recorded the end of the start in the status, from times that the API server has.
//   - spans whose parent is not of the same call are children of the root. It is the one
//     span that a restart can't lose, so that no other is without a parent.
//   - the agent receives a W3C traceparent, in an optional field of the assignment, and
//     stores it in an annotation of the SessionAssignment. It is not part of the spec's
//     hash: enabling or disabling tracing causes no order and no write. An agent, too,
//     continues the trace after a restart.
//
// # Sampling
//
// The hub decides, by the ratio and the trace's ID, so that all leaders decide alike. A
// lifecycle that is not traced has no traceparent, and the agent writes no spans of it.
//
// # Cost
//
// A nil Tracer is off, and is the only one unless an endpoint is configured: its methods
// return at once and allocate nothing, and there is no goroutine and no connection. When
// on, a span is put into a bounded queue of the SDK's batch processor, which drops what
// does not fit: a collector that is down or slow loses spans, and never delays a
// reconcile. Traces are not for accounting: what must be counted is a metric.
//
// The exporter is OpenTelemetry's own, over gRPC, and supports the variables OTEL_EXPORTER_*,
// OTEL_BSP_*, OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME. k8s.io/component-base/tracing is
// not used: it has no TLS, and can't use a given trace ID.
package tracing
