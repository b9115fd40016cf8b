package protocol

import (
	"encoding/binary"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// script is a sequence of messages as a fuzzer can change it: each is preceded
// by its length.
func script[T proto.Message](f interface{ Fatal(...any) }, messages ...T) (data []byte) {
	for _, m := range messages {
		bytes, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		data = binary.BigEndian.AppendUint16(data, uint16(len(bytes)))
		data = append(data, bytes...)
	}
	return data
}

// next takes a message off a script.
func next(data []byte, into proto.Message) (rest []byte, ok bool) {
	if len(data) < 2 {
		return nil, false
	}
	size := min(int(binary.BigEndian.Uint16(data)), len(data)-2)
	return data[2+size:], proto.Unmarshal(data[2:2+size], into) == nil
}

func helloRequest() *fleetv1.ConnectRequest {
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Hello{Hello: &fleetv1.Hello{
		MinProtocol: 1, MaxProtocol: 1, Instance: "i", AgentTerm: 1}}}
}

func holds(sequence uint64) *fleetv1.ConnectRequest {
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Inventory{Inventory: &fleetv1.Inventory{Last: true, ReportSequence: sequence, Items: []*fleetv1.AssignmentReport{
		{SessionUid: "u", Namespace: "n", Name: "s", Epoch: 1, SpecHash: "h", Status: &fleetv1.AssignmentStatus{Conditions: []*fleetv1.Condition{{Type: "PodReady", Status: "True"}}}}}}}}
}

func reportsBatch(sequence uint64) *fleetv1.ConnectRequest {
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Reports{Reports: &fleetv1.ReportBatch{Sequence: sequence, Items: []*fleetv1.AssignmentReport{
		{SessionUid: "u", Namespace: "n", Name: "s", Epoch: 1, SpecHash: "h"}, {SessionUid: "v", Namespace: "n", Name: "t", Gone: true}}}}}
}

// FuzzConn has an agent send anything in any order.
func FuzzConn(f *testing.F) {
	results := &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Results{Results: &fleetv1.ResultBatch{Items: []*fleetv1.OrderResult{
		{SessionUid: "u", Namespace: "n", Name: "s", Epoch: 1, Code: fleetv1.ResultCode_RESULT_CODE_STOPPED}}}}}
	capacity := &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_Capacity{Capacity: &fleetv1.CapacityReport{Sequence: 1, Nodes: 2, Templates: []*fleetv1.TemplateCapacity{
		{Name: "t", Available: true, Buckets: []*fleetv1.Bucket{{Nodes: 2, Free: map[string]int64{"cpu": 1}}}, Growable: []*fleetv1.Bucket{{Nodes: 1, NodeGroup: "g"}}}},
		NodeGroups: []*fleetv1.NodeGroupStatus{{Name: "g", Growable: 1, State: "Available"}}}}}
	ack := &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_OrderAck{OrderAck: &fleetv1.OrderAck{Sequence: 1}}}
	var held convert.Digest
	held.Add(convert.BucketOf("u"), 7)
	digest := &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_InventoryDigest{InventoryDigest: convert.DigestToWire(&held)}}
	f.Add(script(f, helloRequest(), digest, holds(0), ack, reportsBatch(1), results, capacity, reportsBatch(2)))
	f.Add(script(f, helloRequest(), digest, helloRequest()))
	f.Add(script(f, holds(0), helloRequest()))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := NewConn(5, Tuning{}, time.Unix(0, 0))
		for _, uid := range []types.UID{"u", "v", "w"} {
			a := &v1alpha1.SessionAssignment{}
			a.Spec.Session.UID, a.Spec.Epoch = uid, 3
			c.Put(Order{Assign: a})
		}
		for len(data) > 0 {
			message := &fleetv1.ConnectRequest{}
			rest, ok := next(data, message)
			data = rest
			if !ok {
				continue
			}
			before := c.State()
			effect, err := c.Receive(message)
			if err != nil {
				c.Close()
				if _, err := c.Receive(helloRequest()); err == nil || c.Next() != nil || c.Outbox().Len() != 0 {
					t.Fatal("a connection that is closed goes on")
				}
				return
			}
			checkEffect(t, before, effect)
			carryOut(c, effect)
			checkSent(t, c)
			if c.Outbox().Len() > 3 {
				t.Fatalf("the outbox has %d sessions of 3", c.Outbox().Len())
			}
		}
	})
}

// carryOut does what the I/O around a Conn does.
func carryOut(c *Conn, effect Effect) {
	switch {
	case effect.Admit != nil:
		c.Admitted(durationpb.New(time.Second), "proof", 0)
	case effect.Digest != nil:
		c.Request(convert.AllBuckets())
	case effect.Part != nil, effect.Sequence != 0:
		c.Applied(effect, 0)
	}
}

// checkEffect: a message has at most one effect, in the state for it, and
// nothing that it brings is beyond its limits.
func checkEffect(t *testing.T, before State, e Effect) {
	t.Helper()
	count := 0
	for _, is := range []struct {
		set    bool
		states []State
	}{
		{e.Admit != nil, []State{AwaitHello}},
		{e.Digest != nil, []State{AwaitDigest}},
		{e.Part != nil, []State{AwaitInventory, Serving}},
		{e.Sequence != 0 || e.Changes != nil, []State{Serving}},
		{e.Results != nil, []State{Serving}},
		{e.Capacity != nil, []State{Serving}},
	} {
		if !is.set {
			continue
		}
		count++
		allowed := false
		for _, state := range is.states {
			allowed = allowed || state == before
		}
		if !allowed {
			t.Fatalf("in state %s: %+v", before, e)
		}
	}
	if count > 1 {
		t.Fatalf("more than one effect: %+v", e)
	}
	reported := e.Changes
	if e.Part != nil {
		reported = append(reported, e.Part.Items...)
	}
	for _, report := range reported {
		checkItems(t, []*v1alpha1.SessionAssignment{report.SessionAssignment})
	}
	for _, r := range e.Results {
		if r.SessionUID == "" || len(r.SessionUID) > convert.MaxToken || len(r.Name) > convert.MaxName || len(r.Namespace) > convert.MaxName ||
			r.Epoch < 1 || r.Epoch > maxEpoch || len(r.Message) > convert.MaxMessage || len(r.Reason) > convert.MaxToken {
			t.Fatalf("a result beyond its limits: %+v", r)
		}
	}
	if c := e.Capacity; c != nil {
		if c.GetNodes() < 0 || len(c.GetTemplates()) > maxTemplates || len(c.GetAdmittedNamespaces()) > maxNamespaces {
			t.Fatalf("a report beyond its limits: %v", c)
		}
		for _, template := range c.GetTemplates() {
			for _, b := range template.GetBuckets() {
				for name, free := range b.GetFree() {
					if b.GetNodes() < 0 || free < 0 || len(name) > convert.MaxName {
						t.Fatalf("capacity beyond its limits: %v", template)
					}
				}
			}
		}
	}
}

func checkItems(t *testing.T, items []*v1alpha1.SessionAssignment) {
	t.Helper()
	for _, a := range items {
		if a.Spec.Session.UID == "" || len(a.Spec.Session.UID) > convert.MaxToken || a.Name == "" || len(a.Name) > convert.MaxName ||
			a.Spec.Epoch < 1 || a.Spec.Epoch > maxEpoch || len(a.Status.Message) > convert.MaxMessage || len(a.Status.Conditions) > convert.MaxConditions {
			t.Fatalf("an item beyond its limits: %+v", a)
		}
	}
}

// checkSent: nothing is sent before the agent has sent enough, and nothing is
// acknowledged that did not come.
func checkSent(t *testing.T, c *Conn) {
	t.Helper()
	for range 20 {
		message := c.Next()
		if message == nil {
			return
		}
		state := c.State()
		switch {
		case state == AwaitHello || state == Admitting || state == Closed:
			t.Fatalf("in state %s it sends %v", state, message)
		case message.GetWelcome() == nil && message.GetInventoryRequest() == nil && state != Serving:
			t.Fatalf("in state %s it sends %v", state, message)
		case message.GetReportAck().GetSequence() > c.received:
			t.Fatalf("it acknowledges %v after %d", message, c.received)
		}
	}
	t.Fatal("it never stops sending")
}
