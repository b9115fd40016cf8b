package tracing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// memory is a collector.
type memory struct {
	mu    sync.Mutex
	spans []sdktrace.ReadOnlySpan
	fails error
}

func (m *memory) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spans = append(m.spans, spans...)
	return m.fails
}

func (m *memory) Shutdown(context.Context) error { return nil }

func TestTwoProcessesWriteOneTree(t *testing.T) {
	hub, agent := &memory{}, &memory{}
	now := time.Now()
	before, after := New(1, sdktrace.WithSyncer(hub)), New(1, sdktrace.WithSyncer(hub)) // two leaders
	root := before.Lifecycle("a", 1, 1)
	before.Add(root, Span{Name: "place", From: now, To: now})

	member := New(0, sdktrace.WithSyncer(agent)) // writes what was sampled, whatever its own ratio
	parent := Parse(root.String())
	received := parent.Named("receive")
	member.Add(received, Span{Name: "store", From: now, To: now})
	member.AddAs(received, parent, Span{Name: "receive", From: now, To: now})

	after.AddAs(after.Lifecycle("a", 1, 1), Point{}, Span{Name: "session", From: now.Add(-time.Minute), To: now, Previous: after.Lifecycle("a", 1, 0)})
	for _, tracer := range []*Tracer{before, after, member} {
		tracer.Stop()
	}
	names := map[trace.SpanID]string{}
	spans := slices.Concat(hub.spans, agent.spans)
	for _, s := range spans {
		if s.SpanContext().TraceID() != LifecycleID("a", 1, 1) {
			t.Errorf("%s is in another trace", s.Name())
		}
		names[s.SpanContext().SpanID()] = s.Name()
	}
	var tree []string
	for _, s := range spans {
		tree = append(tree, fmt.Sprintf("%s<%s", s.Name(), names[s.Parent().SpanID()]))
	}
	slices.Sort(tree)
	if got, want := strings.Join(tree, " "), "place<session receive<session session< store<receive"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, s := range spans {
		if s.Name() == "session" && (!s.EndTime().Equal(now) || s.EndTime().Sub(s.StartTime()) != time.Minute || len(s.Links()) != 1) {
			t.Errorf("the root is from %s to %s with %d links", s.StartTime(), s.EndTime(), len(s.Links()))
		}
	}
}

func TestThePartThatIsTracedIsTheSameForEveryLeader(t *testing.T) {
	one, other := New(0.25), New(0.25)
	defer one.Stop()
	defer other.Stop()
	traced := 0
	for i := range 4000 {
		session := fmt.Sprint("session-", i)
		a := one.Lifecycle(session, 1, 1)
		if a.String() != other.Lifecycle(session, 1, 1).String() {
			t.Fatalf("the leaders differ about %s", session)
		}
		if a.Traced() {
			traced++
		}
	}
	if traced < 800 || traced > 1200 {
		t.Errorf("%d of 4000 are traced, of a quarter", traced)
	}
}

func TestSpansThatAreLostAreToldOnce(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	collector := &memory{fails: fmt.Errorf("refused")}
	e := &reportingExporter{SpanExporter: collector, log: log}
	for range 3 {
		if err := e.ExportSpans(context.Background(), nil); err != nil {
			t.Error(err)
		}
	}
	collector.fails = nil
	for range 2 {
		_ = e.ExportSpans(context.Background(), nil)
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "refused") || !strings.Contains(lines[1], "again") {
		t.Errorf("logged %q", lines)
	}
}
