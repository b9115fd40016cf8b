package link

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func slots(name string, n int32) *fleetv1.TemplateCapacity {
	return &fleetv1.TemplateCapacity{Name: name, Revision: "r", Slots: n}
}

func report(sequence uint64, templates ...*fleetv1.TemplateCapacity) *fleetv1.CapacityReport {
	return &fleetv1.CapacityReport{Sequence: sequence, Nodes: 3, AdmittedNamespaces: []string{"desks"}, Templates: templates}
}

func TestCapacityIsReportedInChangesAndPeriodicallyInFull(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	newest := report(1, slots("a", 1), slots("b", 1))
	r := capacityReports{changes: true}
	sends := func(want *fleetv1.CapacityReport) {
		t.Helper()
		if diff := cmp.Diff(want, r.next(now, func() *fleetv1.CapacityReport { return newest }, 1), protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	}
	changed := func(to *fleetv1.CapacityReport) { newest, r.due = to, true }
	sends(nil) // the inventory is not in yet
	if r.wait(now) != 0 {
		t.Error("it would report by itself before it has reported anything")
	}
	changed(newest)
	sends(newest)
	sends(nil)
	if wait := r.wait(now); wait != repeatInterval {
		t.Errorf("the next one is due in %s", wait)
	}
	changed(report(2, slots("a", 1), slots("b", 2)))
	change := report(2, slots("b", 2))
	change.BasedOn = 1
	sends(change)
	changed(report(3, slots("a", 1), slots("b", 2)))
	change = report(3)
	change.BasedOn = 2
	sends(change) // a required report is sent although nothing has changed
	changed(newest)
	sends(nil)
	changed(report(4, slots("b", 2)))
	sends(newest) // a template is gone
	changed(report(5, slots("b", 2), slots("c", 7)))
	change = report(5, slots("c", 7))
	change.BasedOn = 4
	sends(change)

	now = now.Add(repeatInterval)
	change = report(5)
	change.BasedOn = 5
	sends(change) // nothing has changed
	sends(nil)
	if wait := r.wait(now); wait != repeatInterval {
		t.Errorf("the next one is due in %s", wait)
	}
	now = now.Add(fullReportInterval)
	if wait := r.wait(now); wait <= 0 || wait > time.Millisecond {
		t.Errorf("it waits %s for what is due", wait)
	}
	sends(newest) // whole, though nothing has changed since the last change
	sends(nil)
	for range 2 * fullReportInterval / repeatInterval {
		now = now.Add(repeatInterval)
		sends(change) // no whole one is due any more
	}
	r.templates = true // their evaluation changes nothing
	now = now.Add(repeatInterval)
	sends(change)
	now = now.Add(fullReportInterval)
	sends(newest)

	for known, want := range map[uint64]*fleetv1.CapacityReport{5: nil, 4: newest, 0: newest} {
		r.begin(true, known) // another stream, to a hub that has this report
		sends(nil)           // the inventory is not in yet
		if changed(report(5, slots("b", 2), slots("c", 7))); want == nil {
			changed(report(6, slots("b", 2), slots("c", 7)))
			want = report(6)
			want.BasedOn = 5
		}
		sends(want)
		newest = report(5, slots("b", 2), slots("c", 7))
		r.sent = newest
	}
	r.begin(false, 5)
	if r.due = true; r.sent != nil {
		t.Error("a hub that takes whole reports gets changes")
	}
	r.due = false

	old := capacityReports{due: true}
	r = old
	sends(newest)
	changed(report(6, slots("b", 3), slots("c", 7)))
	sends(newest) // an older hub takes whole ones alone
	now = now.Add(repeatInterval)
	sends(newest)
}

func TestChangesHaveTheStateOfEveryNodeGroup(t *testing.T) {
	before, now := report(1, slots("a", 1)), report(2, slots("a", 1))
	now.NodeGroups = []*fleetv1.NodeGroupStatus{{Name: "desktops", Growable: 3}}
	if got := changesOf(before, now); len(got.Templates) != 0 || len(got.NodeGroups) != 1 || got.NodeGroups[0].Growable != 3 {
		t.Errorf("%v", got)
	}
}

func TestAnIdleStreamStillReportsItsCapacity(t *testing.T) {
	m := preparing(greeted())
	m.Begin(nil, 1)
	m.Next(time.Time{}, sources(1))
	if _, err := m.Receive(inventoryRequest(convert.BucketSet{})); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	var reported []string
	for range 200 {
		message, wait := m.Next(now, sources(1))
		switch {
		case message.GetCapacity() != nil:
			reported = append(reported, fmt.Sprint(now.Unix()-1_700_000_000))
		case message == nil && wait == 0:
			t.Fatal("it will send nothing any more")
		}
		if message == nil {
			now = now.Add(wait)
		}
		if len(reported) == 3 {
			break
		}
	}
	if diff := cmp.Diff([]string{"0", "30", "60"}, reported); diff != "" {
		t.Error(diff)
	}
}

func TestAWholeReportFollowsTemplates(t *testing.T) {
	m := preparing(greeted())
	m.capacity.changes = true
	m.Begin(nil, 1)
	m.Next(time.Time{}, sources(1))
	if _, err := m.Receive(inventoryRequest(convert.BucketSet{})); err != nil {
		t.Fatal(err)
	}
	start := time.Unix(1_700_000_000, 0)
	now := start
	// whole returns when whole reports are sent until a time.
	whole := func(until time.Time) (at []string) {
		for now.Before(until) {
			message, wait := m.Next(now, sources(1))
			if message == nil {
				now = now.Add(wait)
			} else if c := message.GetCapacity(); c != nil && c.GetBasedOn() == 0 {
				at = append(at, now.Sub(start).String())
			}
		}
		return at
	}
	if diff := cmp.Diff([]string{"0s"}, whole(start.Add(time.Hour))); diff != "" {
		t.Error(diff)
	}
	now = start.Add(time.Hour)
	if _, err := m.Receive(&fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_Templates{Templates: &fleetv1.TemplateSet{}}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1h5m0s"}, whole(start.Add(2*time.Hour))); diff != "" {
		t.Error(diff)
	}
}

// Whatever changes between two reports, the hub ends up with the second.
func TestChangesAppliedToTheEarlierReportGiveTheNewReport(t *testing.T) {
	before := report(7, slots("a", 1), slots("b", 2), slots("c", 3))
	for _, now := range []*fleetv1.CapacityReport{
		report(8, slots("a", 1), slots("b", 2), slots("c", 3)),
		report(8, slots("a", 9), slots("b", 2), slots("c", 4)),
		report(8, slots("a", 1), slots("b", 2), slots("c", 3), slots("d", 1)),
		report(8, slots("a", 0), slots("b", 0), slots("c", 0)),
	} {
		changes := changesOf(before, now)
		laid := map[string]int32{}
		for _, t := range append(before.GetTemplates(), changes.GetTemplates()...) {
			laid[t.GetName()] = t.GetSlots()
		}
		want := map[string]int32{}
		for _, t := range now.GetTemplates() {
			want[t.GetName()] = t.GetSlots()
		}
		if diff := cmp.Diff(want, laid); diff != "" || changes.GetBasedOn() != 7 || changes.GetSequence() != 8 {
			t.Errorf("%v: %s", changes, diff)
		}
	}
}
