package hub

import (
	"github.com/spf13/pflag"

	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// Tracing of sessions' walks: see package tracing.
type Tracing struct {
	// Endpoint of the collector; empty: what OTEL_EXPORTER_OTLP_ENDPOINT says, and
	// nothing is traced where that is empty too. Insecure: without TLS.
	Endpoint string
	Insecure bool
	// SamplingRatio of the walks is traced, from 0 to 1; less than 0: what
	// OTEL_TRACES_SAMPLER says, else all.
	SamplingRatio float64
}

func (t *Tracing) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&t.Endpoint, "tracing-endpoint", "", "Where an OpenTelemetry collector takes traces of sessions' walks by OTLP over gRPC: host:port, or a URL of http or https; by default what OTEL_EXPORTER_OTLP_ENDPOINT says, and nothing is traced where that is empty.")
	fs.BoolVar(&t.Insecure, "tracing-insecure", false, "Speak to the collector without TLS.")
	fs.Float64Var(&t.SamplingRatio, "tracing-sampling-ratio", -1, "Which part of the walks is traced, from 0 to 1, here and in the members; by default what OTEL_TRACES_SAMPLER says, else all.")
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
