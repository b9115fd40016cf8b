package cluster

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// reports are the hashes of an agent's reports, so that the next stream need not repeat
// them. They may differ from the cache: results change the cache, and a report of an
// older epoch does not. The agent resends what differs.
type reports struct {
	hashes convert.Ledger[types.NamespacedName]
	// altered are the reports that differ from the cache: results have changed the item since,
	// or the report was not applied.
	altered map[types.NamespacedName]bool
}

func (r *reports) isReported(key types.NamespacedName) bool {
	_, reported := r.hashes.Has(key)
	return reported
}

// add records a report, and whether the cache differs from it.
func (r *reports) add(report *protocol.Report, altered bool) {
	key := keyOf(report.SessionAssignment)
	r.hashes.Set(key, convert.BucketOf(string(report.Spec.Session.UID)), report.Hash)
	if altered {
		r.altered[key] = true
	} else {
		delete(r.altered, key)
	}
}

// forgetAltered drops the marks of items that are no longer reported: if the cache has
// them, Differing includes them anyway.
func (r *reports) forgetAltered() {
	maps.DeleteFunc(r.altered, func(key types.NamespacedName, _ bool) bool { return !r.isReported(key) })
}

// Differing returns the buckets that the agent must resend: the member's or the cache's
// content differs from what was reported.
func (p *Cache) Differing(theirs *convert.Digest) convert.BucketSet {
	p.mu.Lock()
	defer p.mu.Unlock()
	differ := p.reported.hashes.Digest().Differing(theirs)
	for key, item := range p.store.items {
		if !p.reported.isReported(key) && !ended(item.status.State) {
			differ.Add(convert.BucketOf(string(item.session.UID)))
		}
	}
	for key := range p.reported.altered {
		if bucket, reported := p.reported.hashes.Has(key); reported {
			differ.Add(bucket)
		}
	}
	return differ
}

// Replace makes the cache equal to the member's inventory of some buckets. Handlers get
// only the differences. Items that await recording (Stopped, Refused) come from results and
// are in no inventory: they stay. In mid-stream a stopped item stays stopped: the page was
// sent before the stop. Replace returns how many items were stale.
func (p *Cache) Replace(buckets convert.BucketSet, items []protocol.Report, midStream bool) (stale int) {
	p.mu.Lock()
	defer p.unlock()
	p.reported.hashes.DeleteBuckets(buckets)
	p.quota.forgetUnreported(p.reported.isReported, func(key types.NamespacedName) bool { return p.store.items[key] != nil })
	named := make(map[types.NamespacedName]bool, len(items))
	for i := range items {
		named[keyOf(items[i].SessionAssignment)] = true
		if !p.applyReport(&items[i], midStream) {
			stale++
		}
	}
	for key, item := range p.store.items {
		if !named[key] && !ended(item.status.State) && buckets.Has(convert.BucketOf(string(item.session.UID))) {
			p.drop(key, item.unpack(key))
		}
	}
	p.reported.forgetAltered()
	return stale
}

// Apply applies the newest reports. The end of an assignment does not change the cache: the
// result Stopped does. It returns how many reports were stale.
func (p *Cache) Apply(reports []protocol.Report) (stale int) {
	p.mu.Lock()
	defer p.unlock()
	for i := range reports {
		if key := keyOf(reports[i].SessionAssignment); reports[i].Gone {
			p.removeReported(key, reports[i].Spec.Session.UID)
			continue
		}
		if !p.applyReport(&reports[i], true) {
			stale++
		}
	}
	return stale
}

// removeReported records that the agent no longer has anything under a name.
func (p *Cache) removeReported(key types.NamespacedName, session types.UID) {
	p.reported.hashes.Delete(key)
	delete(p.reported.altered, key)
	p.quota.unhide(key)
	if p.quota.names[session] == key && p.store.items[key] == nil {
		delete(p.quota.names, session)
	}
}

// applyReport records a report, and stores it if it is current and within the bounds. It
// returns whether it was current.
func (p *Cache) applyReport(r *protocol.Report, midStream bool) bool {
	if key := keyOf(r.SessionAssignment); r.Unread {
		if p.quota.keepWithoutObject(key, p.store.get(key), r.SessionAssignment) != keepNothing {
			p.reported.add(r, true)
		}
		return true
	}
	current := p.put(r.SessionAssignment, midStream)
	if p.quota.excess == nil {
		p.reported.add(r, !current)
	}
	return current
}

// Sums returns the digests of what was reported, and of what the member should have.
func (p *Cache) Sums() protocol.Sums {
	p.mu.Lock()
	defer p.mu.Unlock()
	return protocol.Sums{Reported: p.reported.hashes.Digest().Sum(), Assigned: p.store.assigned + p.quota.hiddenSum}
}

// Held is an assignment that the member has stored.
type Held struct {
	Session types.UID
	Epoch   int64
	// Hash is that of its spec.
	Hash string
}

// Held returns what the member has: all but assignments that await recording.
func (p *Cache) Held() []Held {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Held, 0, len(p.store.items))
	for _, item := range p.store.items {
		if !ended(item.status.State) {
			out = append(out, Held{item.session.UID, item.epoch, item.hash})
		}
	}
	return out
}

// assignedHash returns an item's share of the digest of the assigned set: 0 if the member
// does not have it.
func assignedHash(item *v1alpha1.SessionAssignment) uint64 {
	if item == nil || awaitsRecording(item) {
		return 0
	}
	return convert.AssignedHash(string(item.Spec.Session.UID), item.Spec.Epoch, item.Annotations[v1alpha1.AnnotationSpecHash])
}
