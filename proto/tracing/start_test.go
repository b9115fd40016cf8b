package tracing

import (
	"context"
	"net"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
)

// clean unsets the environment variables of OpenTelemetry.
func clean(t *testing.T) {
	for _, name := range []string{
		"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
	} {
		t.Setenv(name, "") // puts it back in the end
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOffCostsNothing(t *testing.T) {
	clean(t)
	before := runtime.NumGoroutine()
	tracer, err := Start(context.Background(), logr.Discard(), Options{Service: "vdi-hub"})
	if tracer != nil || err != nil {
		t.Fatalf("got %v, %v", tracer, err)
	}
	if after := runtime.NumGoroutine(); after != before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
	now := time.Now()
	allocated := testing.AllocsPerRun(100, func() {
		if root := tracer.Lifecycle("a", 1, 1); tracer.On() || root.Traced() || root.String() != "" {
			t.Error("it traces")
		}
		tracer.Add(Point{}, Span{Name: "place", From: now, To: now})
		tracer.AddAs(Point{}, Point{}, Span{Name: "session", From: now, To: now})
	})
	if allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
	tracer.Stop()
}

func BenchmarkOff(b *testing.B) {
	var tracer *Tracer
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		tracer.Add(tracer.Lifecycle("a", 1, 1), Span{Name: "place", From: now, To: now})
	}
}

func BenchmarkOn(b *testing.B) {
	tracer := New(1, sdktrace.WithBatcher(&memory{}))
	defer tracer.Stop()
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		tracer.Add(tracer.Lifecycle("a", 1, 1), Span{Name: "place", From: now, To: now})
	}
}

func TestItIsSwitchedOnByFlagOrVariable(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		flag string
		on   bool
	}{
		"nothing":                   {},
		"the flag":                  {flag: "collector:4317", on: true},
		"a variable":                {env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317"}, on: true},
		"the variable of traces":    {env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4317"}, on: true},
		"the flag, and disabled":    {flag: "collector:4317", env: map[string]string{"OTEL_SDK_DISABLED": "true"}},
		"the flag, and no exporter": {flag: "collector:4317", env: map[string]string{"OTEL_TRACES_EXPORTER": "none"}},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			for key, value := range c.env {
				t.Setenv(key, value)
			}
			tracer, err := Start(context.Background(), logr.Discard(), Options{Service: "vdi-hub", Endpoint: c.flag, Insecure: true})
			if err != nil || tracer.On() != c.on {
				t.Errorf("on %v, want %v (%v)", tracer.On(), c.on, err)
			}
			tracer.Stop()
		})
	}
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	half := 1.5
	for name, c := range map[string]struct {
		env     map[string]string
		options Options
	}{
		"a ratio above 1":     {options: Options{Endpoint: "c:4317", Ratio: &half}},
		"a scheme":            {options: Options{Endpoint: "ftp://c:4317"}},
		"another protocol":    {options: Options{Endpoint: "c:4317"}, env: map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}},
		"an unknown sampler":  {options: Options{Endpoint: "c:4317"}, env: map[string]string{"OTEL_TRACES_SAMPLER": "xray"}},
		"a ratio of no sense": {options: Options{Endpoint: "c:4317"}, env: map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "much"}},
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			for key, value := range c.env {
				t.Setenv(key, value)
			}
			if tracer, err := Start(context.Background(), logr.Discard(), c.options); err == nil {
				tracer.Stop()
				t.Error("it was accepted")
			}
		})
	}
}

// The collector accepts connections and never answers.
func TestACollectorThatHangsBlocksNoCaller(t *testing.T) {
	clean(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hanging := make(chan struct{})
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		select {
		case <-hanging:
		case <-stream.Context().Done():
		}
		return nil
	}))
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	defer server.Stop()
	defer close(hanging)
	tracer, err := Start(context.Background(), logr.Discard(), Options{Service: "vdi-hub", Endpoint: listener.Addr().String(), Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	// More than the queue holds: a blocking caller would block for ever.
	root, now := tracer.Lifecycle("a", 1, 1), time.Now()
	for range 20_000 {
		tracer.Add(root, Span{Name: "place", From: now, To: now})
	}
	tracer.Stop()
}
