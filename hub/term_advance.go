package hub

import (
	"context"
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// advanceEvery is the minimum time between two raises after orders, before the time factor.
// A restore may stay undetected if the hub gave no orders after the backup except in the last
// advanceEvery and one renewal before it ended.
const advanceEvery = 10 * time.Second

// advance records that orders were sent, so that the term grows. It never blocks.
func (t *hubTerm) advance() {
	select {
	case t.orders <- struct{}{}:
	default:
	}
}

// runAdvance raises the term after orders, at once and then at most every advanceEvery, until
// the context ends. An idle hub writes nothing. It returns an error when this leader may no
// longer raise the term.
//
// A backup of the hub's etcd has the term of its time. Every later order is followed by a
// higher term, which every agent stores with its next renewal: the first agent that
// connects after a restore shows that the hub was restored.
func (t *hubTerm) runAdvance(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-t.lost:
			return err
		case <-t.orders:
		}
		if err := t.grow(ctx); errors.Is(err, errTermTaken) {
			return err
		} else if err != nil {
			ctrl.Log.V(1).Info("The hub's term does not grow yet, will retry", "reason", err.Error())
			t.advance()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(t.options.scaled(advanceEvery)):
		}
	}
}

// grow raises the term by one. It is stored before it is sent to an agent.
func (t *hubTerm) grow(ctx context.Context) error {
	t.raising.Lock()
	defer t.raising.Unlock()
	if _, err := t.addOffset(ctx, 1, func(*coordinationv1.Lease) {}); err != nil {
		return err
	}
	t.current.Add(1)
	return nil
}
