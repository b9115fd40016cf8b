package assignment

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// An agent that ends between the write of an assignment and the deletion of its unnamed
// Secrets leaves a Secret, and the hub does not repeat the order.
func TestWhatAnEarlierProcessDidNotRemoveGoesWithTheNext(t *testing.T) {
	b := newFixture(t)
	b.Put(order(withSecret(withAccess("v1", password), "pull", "p1", "token")))
	b.expect("STORED e1")
	a := b.get("u1")
	a.Spec.Secrets = withAccess("v1", "").Spec.Secrets
	if err := b.live.Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := b.secrets.sweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.secret("pull") != nil {
		t.Error("a Secret that is no longer named is left")
	}
	if b.secret("access") == nil {
		t.Error("one that is named was removed")
	}
}

// A concurrent order has stored a Secret that the cache's assignment does not name yet.
func TestTheSweepRemovesNothingThatAnOrderHasJustStored(t *testing.T) {
	b := newFixture(t)
	b.Put(order(withAccess("v1", password)))
	b.expect("STORED e1")
	old := b.get("u1")
	b.Put(order(withSecret(withAccess("v1", password), "pull", "p1", "token")))
	b.expect("STORED e1")
	b.Client = behindList{b.live, old}
	if err := b.secrets.sweepOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if b.secret("pull") == nil {
		t.Error("a Secret that the assignment names was removed")
	}
}

// behindList is a cache that still lists an assignment as it was.
type behindList struct {
	client.Client
	shows *v1alpha1.SessionAssignment
}

func (c behindList) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if all, ok := list.(*v1alpha1.SessionAssignmentList); ok {
		all.Items = []v1alpha1.SessionAssignment{*c.shows}
		return nil
	}
	return c.Client.List(ctx, list, opts...)
}
