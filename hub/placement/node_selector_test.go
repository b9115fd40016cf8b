package placement

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// onPool returns a request with a template of its own for 1 cpu and 4 GiB.
func onPool(template string, nodeSelector map[string]string) Request {
	return requestWith(session(template), func(r *Request) {
		r.Template, r.NodeSelector = TemplateKey{Name: template, Revision: "r1"}, nodeSelector
	})
}

// poolMember returns a member where each of these templates has 10 slots, and these overheads.
func poolMember(overhead Resources, templates ...string) Candidate {
	c := member("a", 0)
	for _, name := range templates {
		c.Capacity.Templates[TemplateKey{Name: name, Revision: "r1"}] = TemplateCapacity{
			Available: true, Overhead: overhead, Buckets: []Bucket{{Nodes: 1, Free: free(10_500, 60).Amounts()}},
		}
	}
	return c
}

func TestReservationsCostSlotsOfTemplatesThatShareNodes(t *testing.T) {
	pool := func(name string) map[string]string { return map[string]string{"pool": name, "os": "linux"} }
	for name, tc := range map[string]struct {
		reserved, requested map[string]string
		overhead            Resources
		want                int64
	}{
		"no selector":                      {want: 6},
		"one selector":                     {reserved: pool("a"), want: 6},
		"the other selector":               {requested: pool("a"), want: 6},
		"the same nodes":                   {reserved: pool("a"), requested: pool("a"), want: 6},
		"different labels":                 {reserved: pool("a"), requested: map[string]string{"disk": "ssd"}, want: 6},
		"different values":                 {reserved: pool("a"), requested: pool("b"), want: 10},
		"different values, with overheads": {reserved: pool("a"), requested: pool("b"), overhead: Resources{corev1.ResourceCPU: 10}, want: 10},
		"the same nodes, with overheads":   {reserved: pool("a"), requested: pool("a"), overhead: Resources{corev1.ResourceCPU: 10}, want: 6},
	} {
		t.Run(name, func(t *testing.T) {
			c := poolMember(tc.overhead, "reserved", "requested")
			ledger := NewLedger()
			reserved, requested := onPool("reserved", tc.reserved), onPool("requested", tc.requested)
			for i := range 4 {
				d := Place(reserved, []Candidate{c}, ledger)
				if !d.Placed {
					t.Fatal(d.Message)
				}
				ledger.ReserveFor(types.UID(rune('a'+i)), 1, c.UID, reserved.Template, reserved.Resources)
			}
			for kind, l := range map[string]*Ledger{"ledger": ledger, "copy": ledger.CopyFor("", func(types.UID) bool { return false })} {
				if got := Slots(requested, []Candidate{c}, l, 100); got != tc.want {
					t.Errorf("%s: %d slots, want %d", kind, got, tc.want)
				}
			}
		})
	}
}

// After a restart a reservation is restored before a decision names the nodes of its template.
func TestANodeSelectorThatIsKnownLater(t *testing.T) {
	for name, tc := range map[string]struct {
		overhead Resources
		sessions int // of each template, of ten that fit
	}{
		"no slot left":                {nil, 6},
		"one that another has":        {nil, 5},
		"no slot left, with overhead": {Resources{corev1.ResourceCPU: 10}, 6},
	} {
		c := poolMember(tc.overhead, "reserved", "requested")
		reserved, requested := onPool("reserved", map[string]string{"pool": "a"}), onPool("requested", map[string]string{"pool": "b"})
		// A small session fits beside them only if they are on different nodes.
		small := requestWith(requested, func(r *Request) { r.Resources = Resources{corev1.ResourceCPU: 500, corev1.ResourceMemory: 2 * gi} })
		ledger := NewLedger()
		for i := range tc.sessions {
			ledger.ReserveFor(types.UID(rune('a'+i)), 1, c.UID, reserved.Template, reserved.Resources)
			ledger.ReserveFor(types.UID(rune('A'+i)), 1, c.UID, requested.Template, requested.Resources)
		}
		if d := Place(small, []Candidate{c}, ledger); d.Placed {
			t.Errorf("%s: placed while the nodes of the other template are not known: %s", name, d.Message)
		}
		// The decision is about another member, where nothing is reserved.
		other := with(poolMember(tc.overhead, "reserved"), func(c *Candidate) { c.UID = "uid-other" })
		Place(reserved, []Candidate{other}, ledger)
		if d := Place(small, []Candidate{c}, ledger); !d.Placed {
			t.Errorf("%s: a part of the node is free: %s", name, d.Message)
		}
	}
}

// A template that shares no node with a reservation that may find none cannot take its node.
func TestAnotherTemplatesSessionHarmsNoReservation(t *testing.T) {
	reserved, requested := onPool("reserved", map[string]string{"pool": "a"}), onPool("requested", map[string]string{"pool": "b"})
	for name, tc := range map[string]struct {
		selector map[string]string
		want     bool
	}{"other nodes": {maps.Clone(requested.NodeSelector), true}, "the same nodes": {maps.Clone(reserved.NodeSelector), false}} {
		c := poolMember(nil, "reserved", "requested")
		ledger := NewLedger()
		Place(reserved, []Candidate{c}, ledger)
		for i := range 11 { // one more than fit
			ledger.ReserveFor(types.UID(rune('a'+i)), 1, c.UID, reserved.Template, reserved.Resources)
		}
		requested.NodeSelector = tc.selector
		if d := Place(requested, []Candidate{c}, ledger); d.Placed != tc.want {
			t.Errorf("%s: placed %t: %s", name, d.Placed, d.Message)
		}
	}
}

// Reservations on other nodes do not make those of a template look as if they had none to spare.
func TestReservationsOnOtherNodesLeaveWhatIsSpare(t *testing.T) {
	here, there := onPool("here", map[string]string{"pool": "a"}), onPool("there", map[string]string{"pool": "b"})
	c := poolMember(nil, "here", "there")
	ledger := NewLedger()
	for i := range 16 {
		r := here
		if i >= 6 {
			r = there
		}
		Place(r, []Candidate{c}, ledger)
		ledger.ReserveFor(types.UID(rune('a'+i)), 1, c.UID, r.Template, r.Resources)
	}
	if d := Place(here, []Candidate{c}, ledger); !d.Placed {
		t.Errorf("4 slots are free: %s", d.Message)
	}
}

// A node that a group adds for one template is one less for another, whatever labels they require.
func TestReservationsCostSlotsOfTheGroupThatAddsNodesForBoth(t *testing.T) {
	grown := func(group string) TemplateCapacity {
		return TemplateCapacity{Available: true, Growth: &Growth{
			Growable: []NodeGroupBucket{{NodeGroup: group, Bucket: Bucket{Nodes: 1, Free: free(10_500, 60).Amounts()}}},
		}}
	}
	for name, tc := range map[string]struct {
		group string
		want  int64
	}{"one group": {"flexible", 6}, "a group of its own": {"other", 10}} {
		c := poolMember(nil)
		c.Capacity.NodeGroups = []NodeGroup{{Name: "flexible"}, {Name: "other"}}
		reserved, requested := onPool("reserved", map[string]string{"zone": "a"}), onPool("requested", map[string]string{"zone": "b"})
		c.Capacity.Templates[reserved.Template], c.Capacity.Templates[requested.Template] = grown("flexible"), grown(tc.group)
		ledger := NewLedger()
		Place(reserved, []Candidate{c}, ledger)
		for i := range 4 {
			ledger.ReserveFor(types.UID(rune('a'+i)), 1, c.UID, reserved.Template, reserved.Resources)
		}
		if got := Slots(requested, []Candidate{c}, ledger, 100); got != tc.want {
			t.Errorf("%s: %d slots, want %d", name, got, tc.want)
		}
	}
}

func TestARequestHasTheNodesOfItsTemplate(t *testing.T) {
	spec := &v1alpha1.TemplateSpec{NodeSelector: map[string]string{"pool": "a"}}
	if r := RequestFor(&v1alpha1.VDISession{}, spec, "r1", nil); r.NodeSelector["pool"] != "a" {
		t.Errorf("%v", r.NodeSelector)
	}
}
