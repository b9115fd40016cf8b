package link

import (
	"fmt"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

func TestAnAssignmentIsTracedUntilItIsAcknowledged(t *testing.T) {
	for name, c := range map[string]struct {
		untraced bool
		then     func(*orderTraces, *v1alpha1.SessionAssignment)
		want     string
	}{
		"stored": {then: func(w *orderTraces, a *v1alpha1.SessionAssignment) {
			w.acknowledged([]protocol.Result{{SessionUID: "u", Epoch: 2, SpecHash: "another", Code: protocol.Stored}}) // of an earlier order
			w.acknowledged([]protocol.Result{{SessionUID: "u", Epoch: 2, SpecHash: "h", Code: protocol.Stored}})
			w.acknowledged([]protocol.Result{{SessionUID: "u", Epoch: 2, SpecHash: "h", Code: protocol.Stored}})
		}, want: "link.send/Unset assign/Unset"},
		"refused": {then: func(w *orderTraces, a *v1alpha1.SessionAssignment) {
			w.acknowledged([]protocol.Result{{SessionUID: "u", Epoch: 2, SpecHash: "h", Code: protocol.Refused, Reason: v1alpha1.RefusedNoCapacity}})
		}, want: "link.send/Unset assign/Error"},
		"withdrawn": {then: func(w *orderTraces, a *v1alpha1.SessionAssignment) {
			w.acknowledged([]protocol.Result{{SessionUID: "u", Epoch: 2, Code: protocol.Stopped}})
		}, want: "link.send/Unset assign/Error"},
		"cut off":    {then: func(*orderTraces, *v1alpha1.SessionAssignment) {}, want: "link.send/Unset assign/Error"},
		"not traced": {untraced: true, then: func(*orderTraces, *v1alpha1.SessionAssignment) {}},
	} {
		t.Run(name, func(t *testing.T) {
			out := tracetest.NewInMemoryExporter()
			tracer := tracing.New(1, sdktrace.WithSyncer(out))
			w := newOrderTraces(tracer)
			a := &v1alpha1.SessionAssignment{}
			a.Spec.Session.UID, a.Spec.Epoch = "u", 2
			a.Annotations = map[string]string{v1alpha1.AnnotationSpecHash: "h"}
			trace := tracer.Lifecycle("u", 2, 1)
			if !c.untraced {
				a.Annotations[v1alpha1.AnnotationTraceparent] = trace.String()
			}
			message := &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_Orders{Orders: &fleetv1.OrderBatch{Items: []*fleetv1.Order{
				{Order: &fleetv1.Order_Assign{Assign: convert.AssignmentToWire(a)}},
			}}}}
			w.put(protocol.Order{Assign: a})
			w.sent(message)
			w.sent(message)
			c.then(w, a)
			w.close()
			var got []string
			for _, s := range out.GetSpans() {
				got = append(got, fmt.Sprintf("%s/%s", s.Name, s.Status.Code))
				if s.SpanContext.TraceID() != tracing.LifecycleID("u", 2, 1) {
					t.Errorf("%s is in another trace", s.Name)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
			if len(w.open) != 0 {
				t.Errorf("%d are kept", len(w.open))
			}
		})
	}
}

func TestWithoutATracerTracingCostsNothing(t *testing.T) {
	w := newOrderTraces(nil)
	order, message := protocol.Order{Assign: &v1alpha1.SessionAssignment{}}, &fleetv1.ConnectResponse{}
	results := []protocol.Result{{SessionUID: "u"}}
	if n := testing.AllocsPerRun(100, func() {
		w.put(order)
		w.sent(message)
		w.acknowledged(results)
		w.close()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
