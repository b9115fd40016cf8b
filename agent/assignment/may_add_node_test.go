package assignment

import (
	"testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// growing is a member without free capacity whose node groups may add a node.
type growing struct{ lackingCapacity }

func (growing) Refuses(a *v1alpha1.SessionAssignment) string {
	if a.MayAddNode {
		return ""
	}
	return "no node has enough free capacity"
}

func TestAnOrderForANodeThatMayBeAdded(t *testing.T) {
	b := newFixture(t)
	b.Capacity = growing{}
	a := assignment("u1", 1, "ada")
	b.Put(order(a))
	b.expect("REFUSED e1 NoCapacity")
	a.MayAddNode = true
	b.Put(order(a))
	b.expect("STORED e1")
	stored := b.get("u1")
	if stored == nil || stored.MayAddNode {
		t.Errorf("stored %v", stored)
	}
	a.MayAddNode = false
	b.Put(order(a))
	b.expect("STORED e1")
	if again := b.get("u1"); again.ResourceVersion != stored.ResourceVersion {
		t.Error("it is written again")
	}
}
