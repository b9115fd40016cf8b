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

// telling is what the hub was told on a stream.
//
// Invariant: told is what the hub has in hand once it has applied all that was
// sent up to now: the digest that the stream began with, and each assignment's
// last page or report.
type telling struct {
	told convert.Ledger[Ref]
	// wanted are the buckets of the request that is being answered.
	wanted convert.BucketSet
	// listing: a request came, and what the member holds is being listed.
	// paging: there are pages to send.
	listing, paging bool
	// asked is when the digest was sent.
	asked time.Time
}

// note takes down what is sent, and stamps it.
func (t *telling) note(items []*fleetv1.AssignmentReport) {
	for _, item := range items {
		ref := refOf(item)
		if item.GetGone() {
			t.told.Delete(ref)
			continue
		}
		item.ReportHash = convert.ReportHash(item)
		t.told.Set(ref, convert.BucketOf(item.GetSessionUid()), hashOf(item))
	}
}

// hashOf is what a report that is stamped adds to a digest.
func hashOf(r *fleetv1.AssignmentReport) uint64 {
	return convert.ItemHash(r.GetSessionUid(), r.GetEpoch(), r.GetSpecHash(), r.GetReportHash())
}

func refOf(r *fleetv1.AssignmentReport) Ref {
	return Ref{UID: types.UID(r.GetSessionUid()), NamespacedName: types.NamespacedName{Namespace: r.GetNamespace(), Name: r.GetName()}}
}

// withEnds has what the hub was told of and is there no more reported as gone.
func (t *telling) withEnds(render Render) Render {
	return func(ref Ref) *fleetv1.AssignmentReport {
		if r := render(ref); r != nil {
			return r
		}
		if _, told := t.told.Has(ref); !told {
			return nil
		}
		return &fleetv1.AssignmentReport{SessionUid: string(ref.UID), Namespace: ref.Namespace, Name: ref.Name, Gone: true}
	}
}

func (m *Machine) nextDigest(sources Sources) *fleetv1.ConnectRequest {
	for _, ref := range m.inventory {
		if hash, ok := sources.hash(ref); ok {
			m.telling.told.Set(ref, convert.BucketOf(string(ref.UID)), hash)
		}
	}
	m.state, m.inventory, m.telling.asked = AwaitRequest, nil, m.now
	return &fleetv1.ConnectRequest{Message: &fleetv1.ConnectRequest_InventoryDigest{
		InventoryDigest: convert.DigestToWire(m.telling.told.Digest())}}
}

func (s Sources) hash(ref Ref) (uint64, bool) {
	if s.Hash != nil {
		if hash, ok := s.Hash(ref); ok {
			return hash, true
		}
	}
	return hashRendered(ref, s.Render)
}

func hashRendered(ref Ref, render Render) (uint64, bool) {
	r := fitting(render(ref))
	if r == nil {
		return 0, false
	}
	r.ReportHash = convert.ReportHash(r)
	return hashOf(r), true
}

// request takes the hub's word on which part of the inventory it lacks.
func (m *Machine) request(w *fleetv1.InventoryRequest) (Effect, error) {
	wanted, err := convert.BucketsFromWire(w)
	switch {
	case err != nil:
		return Effect{}, fmt.Errorf("%w: reading the request for the inventory: %w", errProtocol, err)
	case m.state != AwaitRequest && (m.state != Serving || m.telling.listing || m.telling.paging):
		return Effect{}, fmt.Errorf("%w: request for the inventory in state %s", errProtocol, m.state)
	case wanted.Len() == 0:
		m.serve()
		return Effect{}, nil
	}
	m.telling.wanted, m.telling.listing = wanted, true
	return Effect{List: true}, nil
}

// Listed says what the member holds, as it was asked for. What was told
// meanwhile counts too: the listing may be older.
func (m *Machine) Listed(refs []Ref) {
	t := &m.telling
	if !t.listing {
		return
	}
	pages := t.told.Keys(t.wanted)
	for _, ref := range refs {
		bucket := convert.BucketOf(string(ref.UID))
		if _, told := t.told.Has(ref); !told && t.wanted.Has(bucket) {
			pages = append(pages, ref)
		}
	}
	slices.SortFunc(pages, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	t.told.DeleteBuckets(t.wanted)
	t.listing, t.paging, m.inventory = false, true, pages
	if m.state == AwaitRequest {
		m.state = SendingInventory
	}
}

// SyncState is what to say on a renewal; nil while there is nothing that both
// sides should agree on. The digest and the number are of the assignments that
// the member's API server holds.
func (m *Machine) SyncState(assigned uint64, assignments int) *fleetv1.SyncState {
	if m.state != Serving || m.telling.listing || m.telling.paging {
		return nil
	}
	return &fleetv1.SyncState{
		ReportSequence: m.reporter.sequence, Reported: m.telling.told.Digest().Sum(),
		Assigned: assigned, Assignments: uint32(assignments),
	}
}

// Tick says what time it is, by a clock that never goes back. An error, which
// wraps ErrStalled, ends the stream: the hub has not acknowledged reports for
// too long, or not answered the digest.
func (m *Machine) Tick(now time.Time) error {
	m.now = now
	if age := m.reporter.UnacknowledgedAge(now); age > m.ackTimeout && m.state == Serving {
		return fmt.Errorf("%w: a batch of reports has not been acknowledged for %s", ErrStalled, age.Round(time.Millisecond))
	}
	if m.state != AwaitRequest || m.telling.listing {
		return nil
	}
	if m.telling.asked.IsZero() {
		m.telling.asked = now
	}
	if age := now.Sub(m.telling.asked); age > m.ackTimeout {
		return fmt.Errorf("%w: the inventory's digest has not been answered for %s", ErrStalled, age.Round(time.Millisecond))
	}
	return nil
}

// AckTimeout is how long the oldest batch may go unacknowledged.
func (m *Machine) AckTimeout() time.Duration { return m.ackTimeout }
