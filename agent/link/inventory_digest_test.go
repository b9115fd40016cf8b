package link

import (
	"errors"
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func inventoryRequest(buckets convert.BucketSet) *fleetv1.ConnectResponse {
	return &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_InventoryRequest{InventoryRequest: convert.BucketsToWire(buckets)}}
}

// servingEmpty is a machine of a member without assignments.
func servingEmpty(t *testing.T, s Sources) *Machine {
	t.Helper()
	m := NewMachine(&fleetv1.Hello{Instance: "i"}, NewReporter(0), NewResults())
	m.Next(time.Time{}, s)
	if _, err := m.Receive(welcome(1, 1)); err != nil {
		t.Fatal(err)
	}
	m.Begin(nil, 1)
	m.Next(time.Time{}, s)
	if _, err := m.Receive(inventoryRequest(convert.BucketSet{})); err != nil || m.State() != Serving {
		t.Fatalf("state %s, %v", m.State(), err)
	}
	m.Next(time.Time{}, s)
	return m
}

// An assignment that is reported during the list for a resync may not be in the list; the hub
// must not count it as gone.
func TestWhatIsReportedDuringAListingIsInItsPages(t *testing.T) {
	s := sources(1)
	m := servingEmpty(t, s)
	effect, err := m.Receive(inventoryRequest(convert.AllBuckets()))
	if err != nil || !effect.List {
		t.Fatalf("%+v, %v", effect, err)
	}
	if m.SyncState(0, 0) != nil {
		t.Error("a digest is sent while a resync is under way")
	}
	m.reporter.Mark(Ref{UID: "a"})
	if message, _ := m.Next(time.Time{}, s); len(message.GetReports().GetItems()) != 1 {
		t.Fatalf("sent %v", message)
	}
	m.Listed([]Ref{{UID: "b"}})
	m.reporter.Mark(Ref{UID: "c"})
	message, _ := m.Next(time.Time{}, s)
	page := message.GetInventory()
	if len(page.GetItems()) != 2 || !page.GetLast() || page.GetReportSequence() != 1 {
		t.Fatalf("sent %v, want a and b as of batch 1", message)
	}
	if m.SyncState(0, 0).GetReportSequence() != 1 {
		t.Errorf("sent %v after the resync", m.SyncState(0, 0))
	}
}

func TestTheEndOfAReportedAssignmentIsReported(t *testing.T) {
	held := map[Ref]bool{{UID: "a"}: true}
	s := sources(1)
	render := s.Render
	s.Render = func(ref Ref) *fleetv1.AssignmentReport {
		if held[ref] {
			return render(ref)
		}
		return nil
	}
	m := servingEmpty(t, s)
	m.reporter.Mark(Ref{UID: "a"})
	m.Next(time.Time{}, s)
	delete(held, Ref{UID: "a"})
	m.reporter.Mark(Ref{UID: "a"})
	m.reporter.Mark(Ref{UID: "never reported"})
	message, _ := m.Next(time.Time{}, s)
	if items := message.GetReports().GetItems(); len(items) != 1 || !items[0].GetGone() || items[0].GetSessionUid() != "a" {
		t.Fatalf("sent %v", message)
	}
	if sum := m.SyncState(0, 0).GetReported(); sum != 0 {
		t.Errorf("digest of nothing: %x", sum)
	}
}

func TestRequestsForTheInventoryThatAreRefused(t *testing.T) {
	all := inventoryRequest(convert.AllBuckets())
	m := servingEmpty(t, sources(1))
	if _, err := m.Receive(all); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Receive(all); !errors.Is(err, errProtocol) {
		t.Errorf("a second one before the first is answered: %v", err)
	}
	tooMany := &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_InventoryRequest{
		InventoryRequest: &fleetv1.InventoryRequest{Buckets: make([]byte, 33)}}}
	if _, err := servingEmpty(t, sources(1)).Receive(tooMany); !errors.Is(err, errProtocol) {
		t.Errorf("more buckets than there are: %v", err)
	}
	gap := servingEmpty(t, sources(1))
	if _, err := gap.Receive(orders(2)); !errors.Is(err, errProtocol) {
		t.Errorf("a batch of orders was lost: %v", err)
	}
}

func TestRequiredCapabilitiesOfAHubMustBeSupported(t *testing.T) {
	requiring := func(hello *fleetv1.Hello, w *fleetv1.Welcome) error {
		w.Protocol = 1
		m := NewMachine(hello, NewReporter(0), NewResults())
		m.Next(time.Time{}, sources(1))
		_, err := m.Receive(&fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_Welcome{Welcome: w}})
		return err
	}
	x := []string{"x"}
	if err := requiring(&fleetv1.Hello{}, &fleetv1.Welcome{RequiredCapabilities: x}); !errors.Is(err, ErrCapability) {
		t.Errorf("the hub requires what is unknown: %v", err)
	}
	if err := requiring(&fleetv1.Hello{RequiredCapabilities: x}, &fleetv1.Welcome{}); !errors.Is(err, ErrCapability) {
		t.Errorf("the hub does not support what is required: %v", err)
	}
	if err := requiring(&fleetv1.Hello{Capabilities: x, RequiredCapabilities: x}, &fleetv1.Welcome{Capabilities: x, RequiredCapabilities: x}); err != nil {
		t.Errorf("both support it: %v", err)
	}
}
