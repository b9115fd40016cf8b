package protocol

import (
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Part is the inventory of a member in some buckets.
type Part struct {
	Buckets convert.BucketSet
	Items   []Report
}

// opening is the hub's request for an agent's inventory, when a stream opens and at a
// resync.
//
// Invariant: requested stays set until the Member has applied what was requested, so
// that no digest is compared meanwhile.
type opening struct {
	requested *convert.BucketSet
	// due: the request is not sent yet; since is when it was, for a resync.
	due   bool
	since time.Time
	pages []Report
	// complete: the last page was received.
	complete bool
}

func (o *opening) request(buckets convert.BucketSet) {
	*o = opening{requested: &buckets, due: true}
}

// awaited reports whether more pages are expected.
func (o *opening) awaited() bool {
	return o.requested != nil && o.requested.Len() > 0 && !o.complete
}

// next returns the request to send.
func (o *opening) next(now time.Time) *fleetv1.ConnectResponse {
	if !o.due {
		return nil
	}
	o.due, o.since = false, now
	var buckets convert.BucketSet // none, if the member cache is complete
	if o.requested != nil {
		buckets = *o.requested
	}
	return &fleetv1.ConnectResponse{Message: &fleetv1.ConnectResponse_InventoryRequest{
		InventoryRequest: convert.BucketsToWire(buckets)}}
}

func (c *Conn) digest(w *fleetv1.InventoryDigest) (Effect, error) {
	if err := c.expect(AwaitDigest, "inventory digest"); err != nil {
		return Effect{}, err
	}
	if w.GetAssignments() > MaxInventory {
		return Effect{}, fmt.Errorf("%w: inventory of more than %d assignments", ErrViolation, MaxInventory)
	}
	digest, err := convert.DigestFromWire(w)
	if err != nil {
		return Effect{}, fmt.Errorf("%w: reading the inventory's digest: %w", ErrViolation, err)
	}
	return Effect{Digest: digest}, nil
}

// Request requests the agent's inventory of some buckets. For no buckets the agent sends
// nothing, and the caller calls Applied with an empty Part at once.
func (c *Conn) Request(buckets convert.BucketSet) {
	if c.state == AwaitDigest {
		c.state = AwaitInventory
		c.opening.request(buckets)
	}
}

// partPage handles a page of the requested buckets. At a resync it names the batch of
// reports that it follows.
func (c *Conn) partPage(page *fleetv1.Inventory) (Effect, error) {
	if c.state != AwaitInventory && c.state != Serving || !c.opening.awaited() || c.opening.due {
		return Effect{}, fmt.Errorf("%w: inventory in state %s that was not requested", ErrViolation, c.state)
	}
	if page.GetReportSequence() != c.received {
		return Effect{}, fmt.Errorf("%w: inventory as of report batch %d after %d", ErrViolation, page.GetReportSequence(), c.received)
	}
	items, malformed := readReports(page.GetItems())
	effect := Effect{Malformed: malformed}
	for _, item := range items {
		if item.Gone || !c.opening.requested.Has(convert.BucketOf(string(item.Spec.Session.UID))) {
			effect.Malformed = append(effect.Malformed, fmt.Errorf("report of %s/%s is of no bucket that was requested", item.Namespace, item.Name))
			continue
		}
		c.opening.pages = append(c.opening.pages, item)
	}
	if len(c.opening.pages) > MaxInventory {
		return Effect{}, fmt.Errorf("%w: inventory of more than %d assignments", ErrViolation, MaxInventory)
	}
	if page.GetLast() {
		effect.Part = &Part{Buckets: *c.opening.requested, Items: c.opening.pages}
		c.opening.pages, c.opening.complete = nil, true
	}
	return effect, nil
}
