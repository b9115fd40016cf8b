package session

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// A hub that has just begun to lead registers its members before it reconciles a
// session: the fleet treats an unregistered member as lost.
func TestMembersAreRegisteredBeforeSessionsAreReconciled(t *testing.T) {
	h, _ := placedInMemory(t)
	before := h.stored()
	h.fleet.away = true // until it is registered
	failure := errors.New("the cache is not there yet")
	registered := 0
	next := &Reconciler{
		Scheduler: h.scheduler,
		Client:    h.Client, Live: h.Live, Cached: h.Cached, Recorder: h.Recorder, Fleet: h.fleet, Reservations: h.fleet, Members: h.Members, Orders: h.Orders,
		Departures: h.Departures, Clock: h.Clock,
		Register: func(context.Context) error {
			if failure == nil {
				h.fleet.away, registered = false, registered+1
			}
			return failure
		},
	}
	h.Reconciler = next
	_, err := h.reconcile()
	h.Expect(err).To(MatchError(failure))
	failure = nil
	s := h.pass()
	h.Expect(s.ResourceVersion).To(Equal(before.ResourceVersion), "nothing of it has changed")
	h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseRunning))
	h.Expect(h.events()).To(BeEmpty())
	h.Expect(registered).To(Equal(1))
}
