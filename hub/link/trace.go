package link

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// Spans of an assignment: until its member has stored it, and, as a part of that, until
// it was sent.
const (
	spanAssign = "assign"
	spanSend   = "link.send"
)

// orderTraces are the unacknowledged assignments of traced sessions of one connection.
// Without a tracer there are none. The connection's lock protects them.
type orderTraces struct {
	tracer *tracing.Tracer
	open   map[types.UID]orderTrace
}

type orderTrace struct {
	lifecycle, self tracing.Point
	epoch           int64
	hash            string
	put             time.Time
	sent            bool
}

func newOrderTraces(t *tracing.Tracer) *orderTraces {
	return &orderTraces{tracer: t, open: map[types.UID]orderTrace{}}
}

// put begins the trace of an order that was added to the outbox.
func (w *orderTraces) put(order protocol.Order) {
	if !w.tracer.On() || order.Assign == nil {
		return
	}
	a := order.Assign
	lifecycle := tracing.Parse(a.Annotations[v1alpha1.AnnotationTraceparent])
	if !lifecycle.Traced() {
		return
	}
	hash := protocol.SpecHash(a)
	w.open[a.Spec.Session.UID] = orderTrace{
		lifecycle: lifecycle, self: lifecycle.Named("assign/" + hash), epoch: a.Spec.Epoch, hash: hash, put: time.Now(),
	}
}

// sent ends the send spans of the orders of a message.
func (w *orderTraces) sent(message *fleetv1.ConnectResponse) {
	now := time.Now()
	for _, order := range message.GetOrders().GetItems() {
		uid := types.UID(order.GetAssign().GetSessionUid())
		one, ok := w.open[uid]
		if !ok || one.sent || one.hash != order.GetAssign().GetSpecHash() {
			continue
		}
		w.tracer.Add(one.self, tracing.Span{Name: spanSend, Kind: tracing.Sends, From: one.put, To: now})
		one.sent = true
		w.open[uid] = one
	}
}

// acknowledged ends the traces of orders that have results.
func (w *orderTraces) acknowledged(results []protocol.Result) {
	for i := range results {
		r := &results[i]
		one, ok := w.open[r.SessionUID]
		if !ok || r.Epoch < one.epoch || r.Code != protocol.Stopped && r.SpecHash != one.hash {
			continue
		}
		failed := ""
		if r.Code != protocol.Stored {
			failed = string(r.Code) + " " + r.Reason
		}
		w.end(r.SessionUID, one, string(r.Code), failed)
	}
}

// close ends the traces of unacknowledged orders.
func (w *orderTraces) close() {
	for uid, one := range w.open {
		w.end(uid, one, "", "the connection ended before the agent acknowledged it")
	}
}

func (w *orderTraces) end(uid types.UID, one orderTrace, result, failed string) {
	w.tracer.AddAs(one.self, one.lifecycle, tracing.Span{
		Name: spanAssign, From: one.put, To: time.Now(), Failed: failed,
		Attributes: []tracing.Attribute{tracing.Epoch.Int64(one.epoch), tracing.Result.String(result)},
	})
	delete(w.open, uid)
}
