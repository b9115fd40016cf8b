package link

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// inventorySync is the state that a stream has reported to the hub.
//
// Invariant: reported is the hub's state once it has applied all messages so far: the
// stream's first digest, and each assignment's last page or report.
type inventorySync struct {
	reported convert.Ledger[Ref]
	// wanted are the buckets of the current request.
	wanted convert.BucketSet
	// listing is set while the inventory is listed for a request, and paging while its pages
	// are sent.
	listing, paging bool
	// sentAt is when the digest was sent.
	sentAt time.Time
}

// record records reports that are sent, and sets their hashes.
func (t *inventorySync) record(items []*fleetv1.AssignmentReport) {
	for _, item := range items {
		ref := refOf(item)
		if item.GetGone() {
			t.reported.Delete(ref)
			continue
		}
		item.ReportHash = convert.ReportHash(item)
		t.reported.Set(ref, convert.BucketOf(item.GetSessionUid()), hashOf(item))
	}
}

// hashOf returns a report's contribution to a digest. The report must have its hash.
func hashOf(r *fleetv1.AssignmentReport) uint64 {
	return convert.ItemHash(r.GetSessionUid(), r.GetEpoch(), r.GetSpecHash(), r.GetReportHash())
}

func refOf(r *fleetv1.AssignmentReport) Ref {
	return Ref{UID: types.UID(r.GetSessionUid()), NamespacedName: types.NamespacedName{Namespace: r.GetNamespace(), Name: r.GetName()}}
}

// withDeletions also renders reported assignments that are gone.
func (t *inventorySync) withDeletions(render Render) Render {
	return func(ref Ref) *fleetv1.AssignmentReport {
		if r := render(ref); r != nil {
			return r
		}
		if _, reported := t.reported.Has(ref); !reported {
			return nil
		}
		return &fleetv1.AssignmentReport{SessionUid: string(ref.UID), Namespace: ref.Namespace, Name: ref.Name, Gone: true}
	}
}

func (m *Machine) nextDigest(now time.Time, sources Sources) *fleetv1.ConnectRequest {
	for _, ref := range m.inventory {
		if hash, ok := sources.Hash(ref); ok {
			m.sync.reported.Set(ref, convert.BucketOf(string(ref.UID)), hash)
		}
	}
	m.state, m.inventory, m.sync.sentAt = AwaitRequest, nil, now
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_InventoryDigest{
		InventoryDigest: convert.DigestToWire(m.sync.reported.Digest())}}
}

// request handles the hub's request for a part of the inventory.
func (m *Machine) request(w *fleetv1.InventoryRequest) (Effect, error) {
	wanted, err := convert.BucketsFromWire(w)
	switch {
	case err != nil:
		return Effect{}, fmt.Errorf("%w: reading the request for the inventory: %w", errProtocol, err)
	case m.state != AwaitRequest && (m.state != Serving || m.sync.listing || m.sync.paging):
		return Effect{}, fmt.Errorf("%w: request for the inventory in state %s", errProtocol, m.state)
	case wanted.Len() == 0:
		m.serve()
		return Effect{}, nil
	}
	m.sync.wanted, m.sync.listing = wanted, true
	return Effect{List: true}, nil
}

// Listed sets the requested inventory. It includes what was reported meanwhile, since the
// list may be older.
func (m *Machine) Listed(refs []Ref) {
	t := &m.sync
	if !t.listing {
		return
	}
	pages := t.reported.Keys(t.wanted)
	for _, ref := range refs {
		bucket := convert.BucketOf(string(ref.UID))
		if _, reported := t.reported.Has(ref); !reported && t.wanted.Has(bucket) {
			pages = append(pages, ref)
		}
	}
	slices.SortFunc(pages, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	t.reported.DeleteBuckets(t.wanted)
	t.listing, t.paging, m.inventory = false, true, pages
	if m.state == AwaitRequest {
		m.state = SendingInventory
	}
}

// SyncState returns the digests for a renewal, and nil during a resync. The arguments are
// the digest and the number of the assignments in the member's API server.
func (m *Machine) SyncState(assigned uint64, assignments int) *fleetv1.SyncState {
	if m.state != Serving || m.sync.listing || m.sync.paging {
		return nil
	}
	return &fleetv1.SyncState{
		ReportSequence: m.reporter.sequence, Reported: m.sync.reported.Digest().Sum(),
		Assigned: assigned, Assignments: uint32(assignments),
	}
}

// Tick returns an error that wraps ErrStalled if the hub has not acknowledged reports, or not answered the digest, for too long.
func (m *Machine) Tick(now time.Time) error {
	if age := m.reporter.UnacknowledgedAge(now); age > m.ackTimeout && m.state == Serving {
		return fmt.Errorf("%w: a batch of reports has not been acknowledged for %s", ErrStalled, age.Round(time.Millisecond))
	}
	if m.state != AwaitRequest || m.sync.listing {
		return nil
	}
	if age := now.Sub(m.sync.sentAt); age > m.ackTimeout {
		return fmt.Errorf("%w: the inventory's digest has not been answered for %s", ErrStalled, age.Round(time.Millisecond))
	}
	return nil
}
