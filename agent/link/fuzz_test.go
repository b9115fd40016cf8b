package link

import (
	"encoding/binary"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// FuzzMachine has a hub send anything in any order: a script is a sequence of
// messages, each preceded by its length.
func FuzzMachine(f *testing.F) {
	ack := &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_ReportAck{ReportAck: &fleetv1.ReportAck{Sequence: 1}}}
	templates := &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_Templates{Templates: &fleetv1.TemplateSet{
		Templates: []*fleetv1.TemplateRequirements{{Name: "t"}}}}}
	requests := func(buckets convert.BucketSet) *fleetv1.ConnectResponse {
		return &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_InventoryRequest{InventoryRequest: convert.BucketsToWire(buckets)}}
	}
	for _, messages := range [][]*fleetv1.ConnectResponse{
		{welcome(1, 5), requests(convert.BucketSet{}), orders(1), ack, templates, orders(2)},
		{welcome(1, 5), requests(convert.AllBuckets()), orders(1), ack, requests(convert.AllBuckets()), orders(2)},
		{welcome(1, 9), requests(convert.BucketSet{}), orders(1), welcome(1, 9)},
		{welcome(1, 4)}, {welcome(2, 5)}, {orders(1)},
	} {
		var data []byte
		for _, m := range messages {
			bytes, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			data = binary.BigEndian.AppendUint16(data, uint16(len(bytes)))
			data = append(data, bytes...)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := NewMachine(testHello(5), NewReporter(0), NewResults())
		refs := []Ref{
			{UID: "u", NamespacedName: types.NamespacedName{Namespace: "n", Name: "u"}},
			{UID: "v", NamespacedName: types.NamespacedName{Namespace: "n", Name: "v"}},
		}
		w := &fuzzed{t: t, m: m, refs: refs, now: time.Unix(0, 0)}
		w.drain()
		for len(data) >= 2 {
			size := min(int(binary.BigEndian.Uint16(data)), len(data)-2)
			message := &fleetv1.ConnectResponse{}
			err := proto.Unmarshal(data[2:2+size], message)
			data = data[2+size:]
			if err != nil {
				continue
			}
			if !w.receive(message) {
				return
			}
			w.drain()
		}
	})
}

// fuzzed is a machine, and what was seen of it.
type fuzzed struct {
	t                  *testing.T
	m                  *Machine
	refs               []Ref
	now                time.Time
	welcomed           bool
	orders, lastReport uint64
}

// receive checks that a message has one effect, in the state for it, and
// carries it out.
func (w *fuzzed) receive(message *fleetv1.ConnectResponse) bool {
	before := w.m.State()
	effect, err := w.m.Receive(message)
	count := 0
	for _, set := range []bool{effect.Welcome != nil, effect.Orders != nil, effect.Templates != nil, effect.List} {
		if set {
			count++
		}
	}
	switch {
	case err != nil && count > 0, count > 1:
		w.t.Fatalf("%+v, %v", effect, err)
	case err != nil:
		return false
	case effect.Welcome != nil && (before != AwaitWelcome || effect.Welcome.GetHubTerm() < 5):
		w.t.Fatalf("in state %s: %v", before, effect.Welcome)
	case (effect.Orders != nil || effect.Templates != nil) && before != Serving:
		w.t.Fatalf("in state %s: %+v", before, effect)
	}
	if batch := message.GetOrders(); batch != nil {
		if batch.GetSequence() <= w.orders {
			w.t.Fatalf("batch %d of orders after %d", batch.GetSequence(), w.orders)
		}
		w.orders = batch.GetSequence()
	}
	if effect.Welcome != nil {
		w.welcomed = true
		w.m.Begin(w.refs, 1)
	}
	if effect.List {
		w.m.Listed(w.refs)
	}
	w.m.reporter.Mark(w.refs[0])
	return true
}

// drain checks what is sent: nothing but Hello before the welcome, nothing but
// the inventory before its end, and batches in order.
func (w *fuzzed) drain() {
	for range 50 {
		w.now = w.now.Add(time.Millisecond)
		message, _ := w.m.Next(w.now, sources(1))
		if message == nil {
			if w.m.reporter.Len() > len(w.refs) || len(w.m.inventory) > len(w.refs) {
				w.t.Fatalf("%d marked, %d to list of %d", w.m.reporter.Len(), len(w.m.inventory), len(w.refs))
			}
			return
		}
		if !w.welcomed && message.GetHello() == nil {
			w.t.Fatalf("before the welcome it sends %v", message)
		}
		if w.welcomed && message.GetHello() != nil {
			w.t.Fatal("it sends a hello again")
		}
		if w.m.State() != Serving && (message.GetReports() != nil || message.GetResults() != nil || message.GetCapacity() != nil) {
			w.t.Fatalf("in state %s it sends %v", w.m.State(), message)
		}
		if batch := message.GetReports(); batch != nil {
			if batch.GetSequence() <= w.lastReport {
				w.t.Fatalf("batch %d of reports after %d", batch.GetSequence(), w.lastReport)
			}
			w.lastReport = batch.GetSequence()
		}
		if sequence := message.GetOrderAck().GetSequence(); sequence > w.orders {
			w.t.Fatalf("it acknowledges batch %d of orders after %d", sequence, w.orders)
		}
	}
	w.t.Fatal("it never stops sending")
}
