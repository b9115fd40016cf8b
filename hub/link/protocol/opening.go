package protocol

import (
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Part is all that a member holds in some buckets.
type Part struct {
	Buckets convert.BucketSet
	Items   []Report
}

// opening is what the hub requests of an agent's inventory, when a stream opens
// and at a resync.
//
// Invariant: asked stays set until the Member has what was requested, so that
// no digest is compared meanwhile.
type opening struct {
	asked *convert.BucketSet
	// due: the request is not sent yet; since when it is, for a resync.
	due   bool
	since time.Time
	pages []Report
	// whole: the last page is in.
	whole bool
}

func (o *opening) ask(buckets convert.BucketSet) {
	*o = opening{asked: &buckets, due: true}
}

// awaited reports whether pages are still to come.
func (o *opening) awaited() bool {
	return o.asked != nil && o.asked.Len() > 0 && !o.whole
}

// next returns the request to send.
func (o *opening) next(now time.Time) *fleetv1.ConnectResponse {
	if !o.due {
		return nil
	}
	o.due, o.since = false, now
	if o.asked == nil {
		// Nothing was requested: the member cache is complete.
		o.since = time.Time{}
		return inventoryRequest(convert.BucketSet{})
	}
	return inventoryRequest(*o.asked)
}

func inventoryRequest(buckets convert.BucketSet) *fleetv1.ConnectResponse {
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

// Ask has the agent send what it holds in some buckets; none is an answer too,
// upon which the agent sends nothing: then Applied with an
// empty Part follows at once.
func (c *Conn) Ask(buckets convert.BucketSet) {
	if c.state == AwaitDigest {
		c.state = AwaitInventory
		c.opening.ask(buckets)
	}
}

// partPage takes a page of the buckets that were requested. In the middle of a
// stream it is sent between two batches of reports, and names them.
func (c *Conn) partPage(page *fleetv1.Inventory) (Effect, error) {
	if c.state != AwaitInventory && c.state != Serving || !c.opening.awaited() || c.opening.due {
		return Effect{}, fmt.Errorf("%w: inventory in state %s that was not asked for", ErrViolation, c.state)
	}
	if page.GetReportSequence() != c.received {
		return Effect{}, fmt.Errorf("%w: inventory as of report batch %d after %d", ErrViolation, page.GetReportSequence(), c.received)
	}
	items, malformed := readReports(page.GetItems())
	effect := Effect{Malformed: malformed}
	for _, item := range items {
		if item.Gone || !c.opening.asked.Has(convert.BucketOf(string(item.Spec.Session.UID))) {
			effect.Malformed = append(effect.Malformed, fmt.Errorf("report of %s/%s is of nothing that was asked for", item.Namespace, item.Name))
			continue
		}
		c.opening.pages = append(c.opening.pages, item)
	}
	if len(c.opening.pages) > MaxInventory {
		return Effect{}, fmt.Errorf("%w: inventory of more than %d assignments", ErrViolation, MaxInventory)
	}
	if page.GetLast() {
		effect.Part = &Part{Buckets: *c.opening.asked, Items: c.opening.pages}
		c.opening.pages, c.opening.whole = nil, true
	}
	return effect, nil
}
