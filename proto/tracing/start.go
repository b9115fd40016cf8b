package tracing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
)

// Options are the options of a process's tracing.
type Options struct {
	// Endpoint of the collector, for OTLP over gRPC: host:port, or a URL of scheme http
	// (no TLS) or https. Default: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or
	// OTEL_EXPORTER_OTLP_ENDPOINT; without any, tracing is off.
	Endpoint string
	// Insecure connects without TLS, if the endpoint is not a URL.
	Insecure bool
	// Ratio of lifecycles that are traced, from 0 to 1; nil: OTEL_TRACES_SAMPLER and
	// OTEL_TRACES_SAMPLER_ARG, or else all. The agent has none: the hub decides.
	Ratio *float64
	// Service is service.name, Version service.version, Instance the Pod's name, and
	// Cluster the member's name, for an agent.
	Service, Version, Instance, Namespace, Cluster string
}

// enabled reports whether tracing is enabled.
func (o Options) enabled() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return o.Endpoint != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
}

// Validate returns an error for invalid options.
func (o Options) Validate() error {
	if !o.enabled() {
		return nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := os.Getenv(name); protocol != "" && protocol != "grpc" {
			return fmt.Errorf("%s is %q: only grpc is supported", name, protocol)
		}
	}
	if scheme, _, found := strings.Cut(o.Endpoint, "://"); found && scheme != "http" && scheme != "https" {
		return fmt.Errorf("the endpoint of tracing, %q, is neither host:port nor a URL of http or https", o.Endpoint)
	}
	_, err := o.ratio()
	return err
}

// ratio returns the ratio of lifecycles that are traced.
func (o Options) ratio() (float64, error) {
	ratio := 1.0
	if o.Ratio != nil {
		ratio = *o.Ratio
	} else {
		switch name := os.Getenv("OTEL_TRACES_SAMPLER"); strings.TrimPrefix(name, "parentbased_") {
		case "", "always_on":
		case "always_off":
			ratio = 0
		case "traceidratio":
			arg := os.Getenv("OTEL_TRACES_SAMPLER_ARG")
			var err error
			if ratio, err = strconv.ParseFloat(arg, 64); arg != "" && err != nil {
				return 0, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %w", err)
			} else if arg == "" {
				ratio = 1
			}
		default:
			return 0, fmt.Errorf("OTEL_TRACES_SAMPLER %q is not supported: use always_on, always_off or traceidratio", name)
		}
	}
	if !(ratio >= 0 && ratio <= 1) {
		return 0, fmt.Errorf("the sampling ratio %v is not between 0 and 1", ratio)
	}
	return ratio, nil
}

// Start starts tracing; it returns nil if tracing is off. It does not wait for the collector.
func Start(ctx context.Context, log logr.Logger, o Options) (*Tracer, error) {
	if err := o.Validate(); err != nil || !o.enabled() {
		return nil, err
	}
	ratio, err := o.ratio()
	if err != nil {
		return nil, err
	}
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(o.resourceAttributes()...), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("creating the resource of traces: %w", err)
	}
	exporter, err := otlptracegrpc.New(ctx, o.exporter()...)
	if err != nil {
		return nil, fmt.Errorf("creating the exporter of traces: %w", err)
	}
	return New(ratio, sdktrace.WithBatcher(&reportingExporter{SpanExporter: exporter, log: log}), sdktrace.WithResource(res)), nil
}

func (o Options) exporter() []otlptracegrpc.Option {
	options := []otlptracegrpc.Option{otlptracegrpc.WithDialOption(grpc.WithUserAgent(o.Service + "/" + o.Version))}
	switch {
	case strings.Contains(o.Endpoint, "://"):
		options = append(options, otlptracegrpc.WithEndpointURL(o.Endpoint))
	case o.Endpoint != "":
		options = append(options, otlptracegrpc.WithEndpoint(o.Endpoint))
	}
	if o.Insecure {
		options = append(options, otlptracegrpc.WithInsecure())
	}
	return options
}

// resourceAttributes returns the attributes of the resource, by OpenTelemetry's conventions. Only
// leaders write spans, so the instance is the leader.
func (o Options) resourceAttributes() []Attribute {
	var attributes []Attribute
	for _, a := range []struct{ key, value string }{
		{"service.namespace", "vdi-fleet"},
		{"service.name", o.Service},
		{"service.version", o.Version},
		{"service.instance.id", o.Instance},
		{"k8s.pod.name", o.Instance},
		{"k8s.namespace.name", o.Namespace},
		{"k8s.cluster.name", o.Cluster},
	} {
		if a.value != "" {
			attributes = append(attributes, attribute.String(a.key, a.value))
		}
	}
	return attributes
}

// New returns a Tracer of a ratio of the lifecycles, with the span processors of the
// options. The Tracer samples by itself, so that the provider samples everything.
func New(ratio float64, options ...sdktrace.TracerProviderOption) *Tracer {
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithIDGenerator(generator{}))...)
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/vdi-fleet/vdi-fleet/proto/tracing"), sampler: sdktrace.TraceIDRatioBased(ratio)}
}

// flushTimeout is how long a process that ends waits until its last spans are exported.
const flushTimeout = 2 * time.Second

// Stop exports the remaining spans within flushTimeout.
func (t *Tracer) Stop() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	// The exporter has already logged a failure.
	_ = t.provider.Shutdown(ctx)
}

// reportingExporter logs once when spans begin to be lost, and once when they are
// exported again.
type reportingExporter struct {
	sdktrace.SpanExporter
	log    logr.Logger
	failed atomic.Bool
}

// ExportSpans exports spans. It never fails: spans that can't be sent are lost, and logged.
func (e *reportingExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err == nil && e.failed.Swap(false):
		e.log.Info("Traces are sent again")
	case err != nil && !errors.Is(err, context.Canceled) && !e.failed.Swap(true):
		e.log.Info("Traces can't be sent, and are dropped meanwhile", "reason", err.Error())
	}
	return nil
}
