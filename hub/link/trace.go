package link

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// The spans of an assignment's way over the link: until its member has stored it,
// and, as a part of that, until it was sent.
const (
	spanAssign = "assign"
	spanSend   = "link.send"
)

// ways are the assignments of traced sessions that are on their way over one
// connection. Without a tracer it has none.
type ways struct {
	tracer *tracing.Tracer
	mu     sync.Mutex
	open   map[types.UID]way
}

type way struct {
	walk, self tracing.Point
	epoch      int64
	hash       string
	put        time.Time
	sent       bool
}

func newWays(t *tracing.Tracer) *ways {
	return &ways{tracer: t, open: map[types.UID]way{}}
}

// put notes an order that the outbox has taken.
func (w *ways) put(order protocol.Order) {
	if !w.tracer.On() || order.Assign == nil {
		return
	}
	a := order.Assign
	walk := tracing.Parse(a.Annotations[v1alpha1.AnnotationTraceparent])
	if !walk.Traced() {
		return
	}
	hash := protocol.SpecHash(a)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[a.Spec.Session.UID] = way{
		walk: walk, self: walk.Named("assign/" + hash), epoch: a.Spec.Epoch, hash: hash, put: time.Now(),
	}
}

// sent notes what has been written to the stream.
func (w *ways) sent(message *fleetv1.ConnectResponse) {
	w.mu.Lock()
	defer w.mu.Unlock()
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

// settled notes what became of orders.
func (w *ways) settled(results []protocol.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
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

// close ends what was never acknowledged.
func (w *ways) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, one := range w.open {
		w.end(uid, one, "", "the connection ended before the agent has acknowledged it")
	}
}

func (w *ways) end(uid types.UID, one way, result, failed string) {
	w.tracer.AddAs(one.self, one.walk, tracing.Span{
		Name: spanAssign, From: one.put, To: time.Now(), Failed: failed,
		Attributes: []tracing.Attribute{tracing.Epoch.Int64(one.epoch), tracing.Result.String(result)},
	})
	delete(w.open, uid)
}
