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

// sentBatch is a batch of orders that the agent has not acknowledged.
type sentBatch struct {
	sequence uint64
	at       time.Time
}

func (c *Conn) orderAck(ack *fleetv1.OrderAck) error {
	if err := c.expect(Serving, "acknowledgment of orders"); err != nil {
		return err
	}
	if ack.GetSequence() > c.orderSequence {
		return fmt.Errorf("%w: order batch %d is acknowledged, %d were sent", ErrViolation, ack.GetSequence(), c.orderSequence)
	}
	c.inFlight = slices.DeleteFunc(c.inFlight, func(b sentBatch) bool { return b.sequence <= ack.GetSequence() })
	return nil
}

// Tick sets the time, of a monotonic clock. Orders without a result for AckTimeout are
// sent again. An error, which wraps ErrStalled, ends the connection: the agent has not
// acknowledged orders, or not answered a resync, for too long.
func (c *Conn) Tick(now time.Time) error {
	c.now = now
	if age := c.UnacknowledgedAge(); age > c.tuning.AckTimeout {
		return fmt.Errorf("%w: a batch of orders has not been acknowledged for %s", ErrStalled, age.Round(time.Millisecond))
	}
	c.outbox.Resend(now.Add(-c.tuning.AckTimeout))
	if c.state != Serving || !c.opening.awaited() || c.opening.due {
		return nil
	}
	if age := now.Sub(c.opening.since); age > c.tuning.AckTimeout {
		return fmt.Errorf("%w: a resync has not been answered for %s", ErrStalled, age.Round(time.Millisecond))
	}
	return nil
}

// UnacknowledgedAge returns the age of the oldest unacknowledged batch of orders, as of
// the last Tick.
func (c *Conn) UnacknowledgedAge() time.Duration {
	if len(c.inFlight) == 0 {
		return 0
	}
	return c.now.Sub(c.inFlight[0].at)
}
