package hub

import (
	"github.com/spf13/pflag"

	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// Tracing are the options of the traces of sessions' lifecycles: see package tracing.
type Tracing struct {
	// Endpoint of the collector, by default $OTEL_EXPORTER_OTLP_ENDPOINT. If both are empty,
	// nothing is traced. Insecure connects without TLS.
	Endpoint string
	Insecure bool
	// SamplingRatio is the share of the lifecycles that are traced, from 0 to 1. If it is
	// negative, $OTEL_TRACES_SAMPLER applies, by default all.
	SamplingRatio float64
}

func (t *Tracing) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&t.Endpoint, "tracing-endpoint", "", "OpenTelemetry collector for traces of sessions' lifecycles (OTLP over gRPC): host:port, or a URL of http or https; by default $OTEL_EXPORTER_OTLP_ENDPOINT, and nothing is traced if that is empty.")
	fs.BoolVar(&t.Insecure, "tracing-insecure", false, "Connect to the collector without TLS.")
	fs.Float64Var(&t.SamplingRatio, "tracing-sampling-ratio", -1, "Share of the lifecycles that are traced, from 0 to 1, here and in the members; by default $OTEL_TRACES_SAMPLER, or else all.")
}

func (o *Options) tracing() tracing.Options {
	out := tracing.Options{
		Endpoint: o.Tracing.Endpoint, Insecure: o.Tracing.Insecure,
		Service: "vdi-hub", Version: o.Version, Instance: o.PodName, Namespace: o.PodNamespace,
	}
	if ratio := o.Tracing.SamplingRatio; ratio >= 0 {
		out.Ratio = &ratio
	}
	return out
}
