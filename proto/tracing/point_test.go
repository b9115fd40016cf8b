package tracing

import (
	"testing"

	"go.opentelemetry.io/otel/trace"
)

func TestARunHasOneTraceInEveryProcess(t *testing.T) {
	seen := map[trace.TraceID]string{}
	for _, run := range []struct {
		session    string
		epoch, run int64
	}{{"a", 1, 1}, {"a", 1, 2}, {"a", 2, 1}, {"b", 1, 1}, {"a1", 1, 1}} {
		id := LifecycleID(run.session, run.epoch, run.run)
		if id != LifecycleID(run.session, run.epoch, run.run) {
			t.Errorf("%v: another trace when it is computed again", run)
		}
		if other, taken := seen[id]; taken {
			t.Errorf("%v has the trace of %s", run, other)
		}
		seen[id] = run.session
	}
}

func TestAPointCrossesTheLink(t *testing.T) {
	p := root(LifecycleID("a", 1, 1))
	text := p.String()
	if len(text) != 55 {
		t.Errorf("%q is no traceparent", text)
	}
	if got := Parse(text); got.String() != text || !got.Traced() {
		t.Errorf("came back as %q", got)
	}
	if a, b := p.Named("x"), Parse(text).Named("x"); a.String() != b.String() || a.String() == text {
		t.Errorf("a span has another ID on the other side: %s, %s", a, b)
	}
}

func TestWhatIsNoTraceparentIsNotTraced(t *testing.T) {
	unsampled := root(LifecycleID("a", 1, 1)).String()
	unsampled = unsampled[:len(unsampled)-2] + "00"
	for _, text := range []string{"", "x", "00-0-0-01", "00-00000000000000000000000000000000-0000000000000000-01", unsampled} {
		if p := Parse(text); p.Traced() || p.String() != "" || p.Named("x").Traced() {
			t.Errorf("%q is traced", text)
		}
	}
}
