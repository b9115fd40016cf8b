package link

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func named(name string) Ref {
	return Ref{UID: types.UID("uid-" + name), NamespacedName: types.NamespacedName{Namespace: "n", Name: name}}
}

func reportFor(ref Ref, hash string) *fleetv1.AssignmentReport {
	return &fleetv1.AssignmentReport{SessionUid: string(ref.UID), Namespace: ref.Namespace, Name: ref.Name, Epoch: 1, SpecHash: hash}
}

func TestADigestIsOfTheCurrentInventory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Summary
		held := map[string]int{}
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			for range rapid.IntRange(0, 4).Draw(t, "changes") {
				name := rapid.StringMatching("[a-f]").Draw(t, "name")
				if rapid.Bool().Draw(t, "gone") {
					delete(held, name)
				} else {
					held[name]++
				}
			}
			var listed []InventoryItem
			for name, version := range held {
				listed = append(listed, InventoryItem{Ref: named(name), Version: fmt.Sprint(version)})
			}
			// One may be deleted between list and rendering.
			lost := rapid.StringMatching("[a-f]").Draw(t, "lost")
			delete(held, lost)
			s.Update(listed, func(ref Ref) *fleetv1.AssignmentReport {
				if version, ok := held[ref.Name]; ok {
					return reportFor(ref, fmt.Sprint(version))
				}
				return nil
			})
			s.Update(without(listed, lost), func(ref Ref) *fleetv1.AssignmentReport {
				t.Fatalf("%s is rendered again", ref.Name)
				return nil
			})
			var want uint64
			for name, version := range held {
				want += convert.AssignedHash(string(named(name).UID), 1, fmt.Sprint(version))
			}
			if got, n := s.Assigned(); got != want || n != len(held) {
				t.Fatalf("%d items with digest %x, want %d with %x", n, got, len(held), want)
			}
		}
	})
}

func without(listed []InventoryItem, name string) (out []InventoryItem) {
	for _, held := range listed {
		if held.Name != name {
			out = append(out, held)
		}
	}
	return out
}

// A status that fits no batch is reported as such, and its batch is one that may
// be sent.
func TestAReportThatFitsNoBatchIsOmittedWithAReason(t *testing.T) {
	huge := strings.Repeat("x", maxBatchBytes)
	r := NewReporter(0)
	for _, name := range []string{"a", "b"} {
		r.Mark(named(name))
	}
	batch, _ := r.Next(time.Time{}, func(ref Ref) *fleetv1.AssignmentReport {
		report := reportFor(ref, "h")
		report.Status = &fleetv1.AssignmentStatus{State: "Active", ObservedGeneration: 3}
		if ref.Name == "a" {
			report.Status.Message = huge
		}
		return report
	})
	if len(batch.GetItems()) != 2 || proto.Size(batch) > maxBatchBytes {
		t.Fatalf("%d items, %d bytes", len(batch.GetItems()), proto.Size(batch))
	}
	if s := batch.Items[0].GetStatus(); s.GetReason() != ReasonReportTooLarge || s.GetState() != "Active" || s.GetObservedGeneration() != 3 {
		t.Errorf("reported %v", s)
	}
	if s := batch.Items[1].GetStatus(); s.GetReason() != "" {
		t.Errorf("reported %v", s)
	}
}

func TestBatchesOfReportsAreBounded(t *testing.T) {
	r, third := NewReporter(0), strings.Repeat("x", maxBatchBytes/3)
	for i := range 8 {
		r.Mark(named(fmt.Sprint(i)))
	}
	sent := 0
	for r.Len() > 0 {
		batch, _ := r.Next(time.Time{}, func(ref Ref) *fleetv1.AssignmentReport { return reportFor(ref, third) })
		if n := proto.Size(batch); n > maxBatchBytes || len(batch.GetItems()) == 0 {
			t.Fatalf("a batch of %d items and %d bytes", len(batch.GetItems()), n)
		}
		sent += len(batch.Items)
		r.Ack(r.sequence)
	}
	if sent != 8 {
		t.Errorf("%d sent, want 8", sent)
	}
}

func TestTheOldestUnacknowledgedBatchCounts(t *testing.T) {
	r, start := NewReporter(0), time.Unix(100, 0)
	render := func(ref Ref) *fleetv1.AssignmentReport { return reportFor(ref, "h") }
	for i := range 3 {
		now := start.Add(time.Duration(i) * time.Second)
		r.Mark(named(fmt.Sprint(i)))
		r.Next(now, render)
	}
	at := start.Add(10 * time.Second)
	for acked, want := range []time.Duration{10 * time.Second, 9 * time.Second, 8 * time.Second, 0} {
		r.Ack(uint64(acked))
		if age := r.UnacknowledgedAge(at); age != want {
			t.Errorf("with %d acknowledged: %s, want %s", acked, age, want)
		}
	}
}

// BenchmarkSummaryOfARenewal is what a renewal costs an agent that holds 1,000
// assignments of which one has changed.
func BenchmarkSummaryOfARenewal(b *testing.B) {
	var s Summary
	listed := make([]InventoryItem, 1000)
	for i := range listed {
		listed[i] = InventoryItem{Ref: named(fmt.Sprint(i)), Version: "1"}
	}
	render := func(ref Ref) *fleetv1.AssignmentReport { return reportFor(ref, "h") }
	s.Update(listed, render)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		listed[7].Version = fmt.Sprint(i)
		s.Update(listed, render)
	}
}
