package placement

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// without returns the candidates without their node groups, or as change leaves them.
func without(candidates []Candidate, change func(*TemplateCapacity)) []Candidate {
	out := slices.Clone(candidates)
	for i := range out {
		if out[i].Capacity == nil {
			continue
		}
		c := *out[i].Capacity
		t := c.Templates[desk]
		change(&t)
		c.NodeGroups, c.Templates = nil, map[TemplateKey]TemplateCapacity{desk: t}
		out[i].Capacity = &c
	}
	return out
}

func TestGrowthNeverMakesASessionUnschedulable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		before := Place(r, without(candidates, func(t *TemplateCapacity) { t.Growth = nil }), ledger)
		if d := Place(r, candidates, ledger); before.Placed && !d.Placed {
			t.Fatalf("without node groups it is placed in %s, with them nowhere: %s", before.Cluster.Name, d.Message)
		}
	})
}

// Node groups without any capacity for the session change no decision.
func TestGroupsThatAddNothingChangeNoDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		plain := without(candidates, func(t *TemplateCapacity) { t.Growth = nil })
		groups := without(candidates, func(t *TemplateCapacity) { t.Growth = &Growth{} })
		for i := range groups {
			if c := groups[i].Capacity; c != nil {
				c.NodeGroups = []NodeGroup{{Name: "g", State: v1alpha1.NodeGroupAvailable}}
			}
		}
		if diff := cmp.Diff(Place(r, plain, ledger), Place(r, groups, ledger)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// What exists, what is being added and what can be added are one capacity: a session fits with node
// groups exactly if it fits where all these nodes exist, unless it may not use some of them.
func TestAllKindsAreOneCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, candidates, ledger := drawScene(t)
		r.FreeOnly, r.Refused, r.RefusedFree, r.Policy.MaxProvisioningTime = false, nil, nil, "1h"
		for i := range r.Policy.Overflow {
			r.Policy.Overflow[i].Capacity = v1alpha1.TierCapacityAny
		}
		exist := without(candidates, func(t *TemplateCapacity) {
			t.Buckets = slices.Clone(t.Buckets)
			if t.Growth != nil {
				for _, b := range append(slices.Clone(t.Growth.Provisioning), t.Growth.Growable...) {
					t.Buckets = append(t.Buckets, b.Bucket)
				}
			}
			t.Growth = nil
		})
		most := rapid.Int64Range(1, 50).Draw(t, "most")
		if got, want := Slots(r, candidates, ledger, most), Slots(r, exist, ledger, most); got != want {
			t.Fatalf("capacity for %d, and for %d if all nodes exist", got, want)
		}
		if got, want := Place(r, candidates, ledger), Place(r, exist, ledger); got.Placed != want.Placed {
			t.Fatalf("placed: %v, and if all nodes exist: %v", got.Placed, want.Placed)
		}
	})
}
