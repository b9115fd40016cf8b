package integration

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"sync"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// span is a span as a collector receives it.
type span struct {
	*tracev1.Span
	// service, instance and cluster identify the process that exported it.
	service, instance, cluster string
}

// collector receives OTLP over gRPC.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	address string
	server  *grpc.Server

	mu    sync.Mutex
	spans []span
}

func startCollector() (*collector, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &collector{address: listener.Addr().String()}
	c.serve(listener)
	return c, nil
}

func (c *collector) serve(listener net.Listener) {
	c.server = grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(c.server, c)
	go c.server.Serve(listener) //nolint:errcheck // it ends when it is stopped
}

func (c *collector) stop() { c.server.Stop() }

// again listens on the same address after stop.
func (c *collector) again() error {
	listener, err := net.Listen("tcp", c.address)
	if err == nil {
		c.serve(listener)
	}
	return err
}

// Export implements collectorv1.TraceServiceServer.
func (c *collector) Export(_ context.Context, request *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.ResourceSpans {
		about := map[string]string{}
		for _, a := range of.GetResource().GetAttributes() {
			about[a.Key] = a.GetValue().GetStringValue()
		}
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, span{s, about["service.name"], about["service.instance.id"], about["k8s.cluster.name"]})
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// trace returns the spans of a trace that were received.
func (c *collector) trace(id string) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []span
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) == id {
			out = append(out, s)
		}
	}
	return out
}

// tree returns each span as "service name<parent", and the names of spans without their parent.
func tree(spans []span) (lines []string, orphans []string) {
	names := map[string]string{}
	for _, s := range spans {
		names[string(s.SpanId)] = s.Name
	}
	for _, s := range spans {
		parent, ok := names[string(s.ParentSpanId)]
		if !ok && len(s.ParentSpanId) > 0 {
			orphans = append(orphans, s.Name)
		}
		lines = append(lines, fmt.Sprintf("%s %s<%s", s.service, s.Name, parent))
	}
	return lines, orphans
}

func attribute(s span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			if text := a.GetValue().GetStringValue(); text != "" {
				return text
			}
			return fmt.Sprint(a.GetValue().GetIntValue())
		}
	}
	return ""
}
