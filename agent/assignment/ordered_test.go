package assignment

import (
	"errors"
	"testing"
)

// Ordered opens a desktop's gate: only a desktop that this process was the first to store
// can't run elsewhere.
func TestAProcessKnowsTheOrdersThatItStored(t *testing.T) {
	b := newFixture(t)
	expect := func(when string, want bool) {
		t.Helper()
		if got := b.Ordered(b.get("u1")); got != want {
			t.Errorf("%s: %t, want %t", when, got, want)
		}
	}
	b.Put(order(assignment("u1", 1, "ada")))
	b.expect("STORED e1")
	expect("it has stored it", true)
	held := b.get("u1")

	b.applier.ordered.Clear() // another process
	b.Put(order(assignment("u1", 1, "ada")))
	b.expect("STORED e1")
	expect("it was found as ordered", false)
	b.Put(order(assignment("u1", 1, "bob")))
	b.expect("STORED e1")
	expect("the order has changed, of the same epoch", false)
	b.fail = errors.New("away")
	b.Put(order(assignment("u1", 2, "bob")))
	b.expect()
	expect("the next epoch is not stored yet", false)
	b.fail = nil
	b.Put(order(assignment("u1", 2, "bob")))
	b.expect("STORED e2")
	expect("the next epoch is stored", true)

	later := b.get("u1")
	later.Spec.Epoch = 3
	if b.Ordered(later) {
		t.Error("an epoch that another process has stored since")
	}
	b.deleted(later)
	if b.Ordered(held) {
		t.Error("what is gone is still recorded")
	}
}

// An order whose answer was lost may have been stored by an earlier process.
func TestAnOrderThatWasStoredBeforeIsNotOfThisProcess(t *testing.T) {
	b := newFixture(t)
	there := assignment("u1", 1, "ada")
	if err := b.live.Create(t.Context(), there); err != nil {
		t.Fatal(err)
	}
	b.Put(order(assignment("u1", 1, "ada")))
	b.expect("STORED e1")
	if b.Ordered(b.get("u1")) {
		t.Error("it counts as this process' own")
	}
}
