package protocol

import (
	"fmt"
	"slices"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// orderWindow is how many batches of orders may be unacknowledged. Orders that are
// put while it is full are coalesced.
const orderWindow = 8

// inFlight are the batches of orders that the agent has not acknowledged, the
// oldest first.
type inFlight struct {
	now     time.Time
	batches []sentBatch
}

type sentBatch struct {
	sequence uint64
	// at is when it was sent; zero before the first Tick.
	at time.Time
}

func (f *inFlight) full() bool { return len(f.batches) >= orderWindow }

func (f *inFlight) sent(sequence uint64) {
	f.batches = append(f.batches, sentBatch{sequence: sequence, at: f.now})
}

// age of the oldest batch.
func (f *inFlight) age() time.Duration {
	if len(f.batches) == 0 || f.batches[0].at.IsZero() {
		return 0
	}
	return f.now.Sub(f.batches[0].at)
}

func (c *Conn) orderAck(ack *fleetv1.OrderAck) error {
	if err := c.expect(Serving, "acknowledgment of orders"); err != nil {
		return err
	}
	if ack.GetSequence() > c.orderSequence {
		return fmt.Errorf("%w: order batch %d is acknowledged, %d were sent", ErrViolation, ack.GetSequence(), c.orderSequence)
	}
	c.inFlight.batches = slices.DeleteFunc(c.inFlight.batches, func(b sentBatch) bool { return b.sequence <= ack.GetSequence() })
	return nil
}

// Tick sets the time, of a monotonic clock. Orders without a result for AckTimeout are
// sent again. An error, which wraps ErrStalled, ends the connection: the agent has not
// acknowledged orders, or not answered a resync, for too long.
func (c *Conn) Tick(now time.Time) error {
	c.inFlight.now = now
	for i := range c.inFlight.batches {
		if sent := &c.inFlight.batches[i]; sent.at.IsZero() {
			sent.at = now
		}
	}
	if age := c.inFlight.age(); age > c.tuning.AckTimeout {
		return fmt.Errorf("%w: a batch of orders has not been acknowledged for %s", ErrStalled, age.Round(time.Millisecond))
	}
	c.outbox.Resend(now.Add(-c.tuning.AckTimeout))
	if c.state != Serving || !c.opening.awaited() || c.opening.due {
		return nil
	}
	if c.opening.since.IsZero() {
		c.opening.since = now
	}
	if age := now.Sub(c.opening.since); age > c.tuning.AckTimeout {
		return fmt.Errorf("%w: a resync has not been answered for %s", ErrStalled, age.Round(time.Millisecond))
	}
	return nil
}

// UnacknowledgedAge returns the age of the oldest unacknowledged batch of orders, as of
// the last Tick.
func (c *Conn) UnacknowledgedAge() time.Duration { return c.inFlight.age() }
