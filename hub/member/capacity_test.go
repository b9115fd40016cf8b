package member

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func capacityOf(name string, slots int32) *fleetv1.TemplateCapacity {
	return &fleetv1.TemplateCapacity{Name: name, Revision: "r", Available: true, Slots: slots, ImageNodes: slots,
		Buckets: []*fleetv1.Bucket{{Nodes: slots, Free: map[string]int64{"cpu": 1000}}}}
}

func templatesReport(sequence, basedOn uint64, templates ...*fleetv1.TemplateCapacity) *fleetv1.CapacityReport {
	return &fleetv1.CapacityReport{Sequence: sequence, BasedOn: basedOn, Nodes: int32(sequence), Templates: templates} //nolint:gosec // small
}

// slotsShown returns the slots by template, as the hub counts them.
func slotsShown(t *testing.T, m *member) map[string]int32 {
	t.Helper()
	out := map[string]int32{}
	for key, c := range m.capacity.Templates {
		out[key.Name] = c.Slots
		if !c.Available || c.Buckets[0].Nodes != c.Slots || c.ImageNodes != c.Slots {
			t.Errorf("%s has %+v", key, c)
		}
	}
	return out
}

// takeReport processes a report as a connection does.
func (m *member) takeReport(r *fleetv1.CapacityReport) applied {
	took, err := m.reportedCapacity.apply(r, nil)
	if err == nil && took.capacity != nil {
		m.capacity, m.fresh = took.capacity, true
	}
	return took
}

func TestCapacityReportsOfWhatHasChanged(t *testing.T) {
	m := &member{}
	take := func(r *fleetv1.CapacityReport, counts, changed bool) {
		t.Helper()
		if got := m.takeReport(r); got.capacity != nil != counts || got.changed != changed {
			t.Errorf("report %d on %d: counts %t, changed %t; want %t, %t", r.GetSequence(), r.GetBasedOn(), got.capacity != nil, got.changed, counts, changed)
		}
	}
	shows := func(want map[string]int32) {
		t.Helper()
		if diff := cmp.Diff(want, slotsShown(t, m)); diff != "" {
			t.Error(diff)
		}
	}
	take(templatesReport(2, 1, capacityOf("a", 1)), false, false) // based on no known report
	take(templatesReport(3, 0, capacityOf("a", 4), capacityOf("b", 5)), true, true)
	first := m.capacity
	take(templatesReport(4, 3, capacityOf("b", 6)), true, true)
	shows(map[string]int32{"a": 4, "b": 6})
	if m.capacity == first || first.Templates[placement.TemplateKey{Name: "b", Revision: "r"}].ImageNodes != 5 {
		t.Error("the report before was changed: results computed from it are cached by its address")
	}
	take(templatesReport(6, 5, capacityOf("a", 9)), false, false) // one is missing
	shows(map[string]int32{"a": 4, "b": 6})
	take(templatesReport(5, 4, capacityOf("c", 1)), true, true) // one more template
	shows(map[string]int32{"a": 4, "b": 6, "c": 1})
	if m.capacity.Sequence != 5 || m.capacity.Nodes != 5 {
		t.Errorf("the totals of the member are of report %d", m.capacity.Nodes)
	}
	take(templatesReport(5, 0, capacityOf("a", 4), capacityOf("b", 6), capacityOf("c", 1)), true, false) // reported again
	before := m.capacity
	take(templatesReport(5, 5), true, false) // nothing has changed
	take(templatesReport(4, 4), false, false)
	if m.capacity != before {
		t.Error("a report without changes has changed the capacity")
	}
	take(templatesReport(6, 0, capacityOf("a", 4)), true, true)
	shows(map[string]int32{"a": 4})

	// Another connection of the same process: the hub told it which report it has.
	m.fresh = false
	take(templatesReport(8, 7), false, false) // based on another
	before = m.capacity
	take(templatesReport(7, 6), true, true) // nothing has changed but what it counts
	shows(map[string]int32{"a": 4})
	if m.capacity == before || m.capacity.Sequence != 7 || m.capacity.Nodes != 7 || before.Sequence != 6 {
		t.Errorf("report %d of %d nodes, and the one before is now %d", m.capacity.Sequence, m.capacity.Nodes, before.Sequence)
	}
	m.fresh = false
	take(templatesReport(7, 7), true, true)
	m.fresh = false
	take(templatesReport(8, 7, capacityOf("a", 9)), true, true)
	shows(map[string]int32{"a": 9})
	m.fresh = false
	take(templatesReport(8, 0, capacityOf("a", 2)), true, true)
	shows(map[string]int32{"a": 2})
}

func TestTemplatesWhoseAvailabilityChangesAreReported(t *testing.T) {
	m := &member{}
	changed := func(r *fleetv1.CapacityReport) (names []string) {
		for _, key := range m.takeReport(r).templates {
			names = append(names, key.Name)
		}
		slices.Sort(names)
		return names
	}
	lacks := func(name, reason, message string) *fleetv1.TemplateCapacity {
		return &fleetv1.TemplateCapacity{Name: name, Revision: "r", Reason: reason, Message: message}
	}
	for i, report := range []struct {
		r    *fleetv1.CapacityReport
		want []string
	}{
		{templatesReport(1, 0, capacityOf("a", 4), lacks("b", "Node", "none has the label x")), []string{"a", "b"}},
		{templatesReport(2, 1, capacityOf("a", 3)), nil}, // other capacity, the same verdict
		{templatesReport(3, 0, capacityOf("a", 3), lacks("b", "Node", "none has the label x")), nil},
		{templatesReport(4, 3, lacks("b", "Node", "none has the label y")), []string{"b"}},
		{templatesReport(5, 4, lacks("a", "StorageClass", "no such class"), capacityOf("b", 1)), []string{"a", "b"}},
	} {
		if diff := cmp.Diff(report.want, changed(report.r)); diff != "" {
			t.Errorf("report %d: %s", i, diff)
		}
	}
}

// counted counts the reports that the scheduler's cache receives.
type counted struct {
	Cache
	reports int
}

func (c *counted) Reported(member types.UID, r *placement.Capacity) {
	c.reports++
	c.Cache.Reported(member, r)
}

func TestARepeatedReportIsNotEvaluatedAgain(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	c := &counted{Cache: x.Fleet.cache}
	x.Fleet.cache = c
	x.clock.Step(time.Second)
	m.Capacity(&fleetv1.CapacityReport{Sequence: 1, BasedOn: 1})
	x.Expect(x.ReportedAt("uid-eu")).To(Equal(x.clock.Now()), "it is as it was")
	x.Expect(c.reports).To(BeZero(), "it was evaluated already")
	m.Capacity(capacityReport(1, 100))
	x.Expect(c.reports).To(Equal(1), "a whole one takes the place of the one before")
	m.Capacity(&fleetv1.CapacityReport{Sequence: 2, BasedOn: 1})
	x.Expect(c.reports).To(Equal(2), "another one counts more reservations")
}
