package link

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func testHello(highest int64) *fleetv1.Hello {
	return &fleetv1.Hello{MinProtocol: 1, MaxProtocol: 1, Instance: "i", HighestHubTerm: highest}
}

func welcome(protocol int32, term int64) *fleetv1.ConnectResponse {
	return &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_Welcome{
		Welcome: &fleetv1.Welcome{Protocol: protocol, HubTerm: term, RenewInterval: durationpb.New(time.Second), AckTimeout: durationpb.New(time.Minute)}}}
}

func orders(sequence uint64) *fleetv1.ConnectResponse {
	return &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_Orders{
		Orders: &fleetv1.OrderBatch{Sequence: sequence, Items: []*fleetv1.Order{{}}}}}
}

func sources(sequence uint64) Sources {
	return Sources{
		Render:   func(r Ref) *fleetv1.AssignmentReport { return &fleetv1.AssignmentReport{SessionUid: string(r.UID)} },
		Capacity: func() *fleetv1.CapacityReport { return &fleetv1.CapacityReport{Sequence: sequence} },
		Hash:     func(Ref) (uint64, bool) { return 1, true },
	}
}

// greeted is a machine that has sent Hello.
func greeted() *Machine {
	m := NewMachine(testHello(5), NewReporter(0), NewResults())
	m.Next(time.Time{}, sources(1))
	return m
}

func TestMachineRefuses(t *testing.T) {
	serving := func() *Machine {
		m := greeted()
		_, _ = m.Receive(welcome(1, 5))
		m.Begin(nil, 1)
		m.Next(time.Time{}, sources(1))
		_, _ = m.Receive(inventoryRequest(convert.BucketSet{}))
		return m
	}
	for name, tc := range map[string]struct {
		machine *Machine
		message *fleetv1.ConnectResponse
		want    error
	}{
		"a hub of an earlier term":     {greeted(), welcome(1, 4), ErrStaleHub},
		"a hub of another protocol":    {greeted(), welcome(2, 5), errProtocol},
		"orders before the welcome":    {greeted(), orders(1), errProtocol},
		"a second welcome":             {serving(), welcome(1, 5), errProtocol},
		"a hub of the same term":       {greeted(), welcome(1, 5), nil},
		"orders while serving":         {serving(), orders(1), nil},
		"a message of a kind unknown":  {serving(), &fleetv1.ConnectResponse{}, nil},
		"an unknown one at the start":  {greeted(), &fleetv1.ConnectResponse{}, errProtocol},
		"orders before the inventory":  {preparing(greeted()), orders(1), errProtocol},
		"a welcome before hello is up": {NewMachine(testHello(0), NewReporter(0), NewResults()), welcome(1, 5), errProtocol},
	} {
		if _, err := tc.machine.Receive(tc.message); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	m := serving()
	_, _ = m.Receive(orders(1))
	if _, err := m.Receive(orders(1)); !errors.Is(err, errProtocol) {
		t.Errorf("a batch that comes again: %v", err)
	}
}

func preparing(m *Machine) *Machine {
	_, _ = m.Receive(welcome(1, 5))
	return m
}

func TestCapacityWaitsForAReportThatCountsTheInventory(t *testing.T) {
	m := preparing(greeted())
	m.Begin([]Ref{{UID: "a"}}, 7)
	if message, _ := m.Next(time.Time{}, sources(6)); message.GetInventoryDigest().GetAssignments() != 1 {
		t.Fatalf("first the digest, not %v", message)
	}
	if effect, err := m.Receive(inventoryRequest(convert.AllBuckets())); err != nil || !effect.List {
		t.Fatalf("%+v, %v", effect, err)
	}
	m.Listed([]Ref{{UID: "a"}})
	if message, _ := m.Next(time.Time{}, sources(6)); !message.GetInventory().GetLast() {
		t.Fatalf("then the inventory, not %v", message)
	}
	if message, _ := m.Next(time.Time{}, sources(6)); message != nil {
		t.Fatalf("sent %v", message)
	}
	m.CapacityChanged()
	if message, _ := m.Next(time.Time{}, sources(7)); message.GetCapacity().GetSequence() != 7 {
		t.Fatalf("sent %v", message)
	}
	if message, _ := m.Next(time.Time{}, sources(7)); message != nil {
		t.Fatalf("sent %v again", message)
	}
}

func TestReporterSendsAtOnceAndGathersWhatFollows(t *testing.T) {
	r := NewReporter(50 * time.Millisecond)
	start := time.Unix(100, 0)
	for _, step := range []struct {
		mark      types.UID
		after     time.Duration
		wantItems int
		wantWait  time.Duration
	}{
		{mark: "a", wantItems: 1},
		{mark: "b", after: 10 * time.Millisecond, wantWait: 40 * time.Millisecond},
		{mark: "c", after: 45 * time.Millisecond, wantWait: 5 * time.Millisecond},
		{after: 50 * time.Millisecond, wantItems: 2},
		{mark: "d", after: time.Second, wantItems: 1},
	} {
		if step.mark != "" {
			r.Mark(Ref{UID: step.mark})
		}
		batch, wait := r.Next(start.Add(step.after), sources(0).Render)
		if len(batch.GetItems()) != step.wantItems || wait != step.wantWait {
			t.Errorf("%s after the start: %d items, and waits for %s, want %d and %s",
				step.after, len(batch.GetItems()), wait, step.wantItems, step.wantWait)
		}
	}
}

func TestReporterOmitsWhatIsGone(t *testing.T) {
	r := NewReporter(0)
	r.Mark(Ref{UID: "a"})
	batch, wait := r.Next(time.Time{}, func(Ref) *fleetv1.AssignmentReport { return nil })
	if batch != nil || wait != 0 || r.Len() != 0 {
		t.Errorf("batch %v, wait %s, %d dirty", batch, wait, r.Len())
	}
}

func TestReporterBoundsItsBatches(t *testing.T) {
	r := NewReporter(time.Hour)
	for i := range maxBatchItems + 1 {
		r.Mark(Ref{NamespacedName: types.NamespacedName{Name: string(rune(i + 1))}})
	}
	batch, _ := r.Next(time.Time{}, sources(0).Render)
	if len(batch.GetItems()) != maxBatchItems || r.Len() != 1 {
		t.Errorf("%d items, %d left", len(batch.GetItems()), r.Len())
	}
}

func TestResultsKeepTheNewestOfEach(t *testing.T) {
	r := NewResults()
	stored := func(epoch int64, hash string) *fleetv1.OrderResult {
		return &fleetv1.OrderResult{SessionUid: "a", Epoch: epoch, SpecHash: hash, Code: fleetv1.ResultCode_RESULT_CODE_STORED}
	}
	stopped := &fleetv1.OrderResult{SessionUid: "a", Epoch: 1, Code: fleetv1.ResultCode_RESULT_CODE_STOPPED}
	r.Add(stored(1, "h1"))
	r.Add(stored(1, "h2"))
	r.Add(stored(1, ""))
	r.Add(stopped)
	r.Add(stored(2, "h3"))
	batch := r.Next()
	if len(batch.GetItems()) != 2 || batch.Items[0] != stopped || batch.Items[1].GetEpoch() != 2 {
		t.Errorf("reported %v", batch)
	}
	if r.Next() != nil || r.Len() != 0 {
		t.Error("reported again")
	}
	r.Add(stored(2, "h3"))
	r.Add(stopped)
	r.Begin()
	if batch := r.Next(); len(batch.GetItems()) != 1 || batch.Items[0] != stopped {
		t.Errorf("reported on a new stream: %v", batch)
	}
}

func TestReconnectDelay(t *testing.T) {
	if got := reconnectDelay(0.5); got != 2500*time.Millisecond {
		t.Errorf("%s, want half of 5 s", got)
	}
	if got := jittered(10*time.Second, 0); got != 9*time.Second {
		t.Errorf("jittered: %s", got)
	}
}
