package session

import (
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// ranAt has a Pod that was bound a second before noon run since then, and be ready
// two seconds later.
func ranAt(p *corev1.Pod) {
	makeReady(p)
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(2 * time.Second))
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Second)),
	})
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)},
	}}}
}

func TestEachWriteAndEachStepOfThePodIsASpanOfTheTrace(t *testing.T) {
	out := tracetest.NewInMemoryExporter()
	tracer := tracing.New(1, sdktrace.WithSyncer(out))
	a := desktop()
	a.Annotations = map[string]string{api.AnnotationTraceparent: tracer.Lifecycle("u", 1, 1).String()}
	s := newStage(t, a)
	s.trace(tracer)
	s.pass()
	s.bind()
	s.setPod(ranAt)
	s.pass()
	s.pass()
	lasted := map[string]time.Duration{}
	var names []string
	for _, span := range out.GetSpans() {
		if span.SpanContext.TraceID() != tracing.LifecycleID("u", 1, 1) {
			t.Errorf("%s is in another trace", span.Name)
		}
		names, lasted[span.Name] = append(names, span.Name), span.EndTime.Sub(span.StartTime)
	}
	slices.Sort(names)
	want := []string{"apply", "apply", "apply", "apply", "apply", "pod.ready", "pod.schedule", "pod.start", "report"}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if lasted["pod.start"] != time.Second || lasted["pod.ready"] != 2*time.Second {
		t.Errorf("the Pod's steps lasted %v", lasted)
	}

	out.Reset()
	s.r.memories.Clear() // the agent's next process
	s.pass()
	if again := out.GetSpans(); len(again) != 0 {
		t.Errorf("the next process traces again %v", again.Snapshots())
	}
}

func TestAnAssignmentThatIsNotTracedHasNoSpans(t *testing.T) {
	out := tracetest.NewInMemoryExporter()
	s := newStage(t, desktop())
	s.trace(tracing.New(1, sdktrace.WithSyncer(out)))
	s.pass()
	s.bind()
	s.setPod(ranAt)
	s.pass()
	if got := out.GetSpans(); len(got) != 0 {
		t.Errorf("%d spans", len(got))
	}
}

func TestADesktopThatBecomesReadyIsOneLogLine(t *testing.T) {
	var lines []string
	logger := funcr.NewJSON(func(line string) { lines = append(lines, line) }, funcr.Options{})
	s := newStage(t, desktop())
	pass := func() {
		if _, err := s.r.Reconcile(log.IntoContext(t.Context(), logger), ctrl.Request{NamespacedName: s.key}); err != nil {
			t.Fatal(err)
		}
	}
	pass()
	s.bind()
	s.setPod(ranAt)
	pass()
	s.clock.SetTime(noon.Add(time.Minute))
	pass()
	if len(lines) != 1 {
		t.Errorf("%d lines: %v", len(lines), lines)
	}
}
