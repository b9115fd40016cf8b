package assignment

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// late is a cache that shows an earlier state of assignments, absent if nil.
type late struct {
	client.Client
	shows *v1alpha1.SessionAssignment
}

func (l late) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	a, ok := o.(*v1alpha1.SessionAssignment)
	if !ok {
		return l.Client.Get(ctx, key, o, opts...)
	}
	if l.shows == nil {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	l.shows.DeepCopyInto(a)
	return nil
}

var forbidden = apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("the roles are not read yet"))

// An API server that stops during a write may have done it, and one that starts may forbid
// everything for a moment. With "Refused" the hub would place the session elsewhere while it
// runs here.
func TestAStoredOrderIsNotRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		before  *v1alpha1.SessionAssignment
		prepare func(*fixture)
	}{
		"though it is forbidden now": {
			prepare: func(b *fixture) { b.fail = forbidden }},
		"though its own Pod has the last capacity": {
			prepare: func(b *fixture) { b.Capacity = lackingCapacity("no node has enough cpu") }},
		"where it ran an earlier epoch": {
			before:  assignment("u1", 1, "ada"),
			prepare: func(b *fixture) { b.fail = forbidden }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			b.Put(order(assignment("u1", 2, "ada")))
			b.run()
			b.Client = late{b.live, tc.before}
			b.pending.minEpochs = lru.New(1)
			tc.prepare(b)
			b.Put(order(assignment("u1", 2, "ada")))
			b.expect("STORED e2")
		})
	}
}

func TestNothingIsRefusedWhileStoredOrdersAreUnknown(t *testing.T) {
	b := newFixture(t)
	b.Live = silent{b.live}
	b.fail = forbidden
	b.Put(order(assignment("u1", 1, "ada")))
	b.work(b.ctx)
	if got := b.results.take(); len(got) > 0 {
		t.Errorf("reported %v", got)
	}
}

// silent is an API server that forbids to read.
type silent struct{ client.Reader }

func (silent) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return forbidden
}

func TestALowerEpochThanWasSeenIsNotStoredOnceThatIsGone(t *testing.T) {
	b := newFixture(t)
	seen := assignment("u1", 3, "ada")
	seen.ResourceVersion = "1"
	b.Client = late{b.live, seen}
	b.Put(order(assignment("u1", 2, "ada")))
	b.expect("REFUSED e2 StaleEpoch")
	if b.get("u1") != nil {
		t.Error("stored")
	}
}
