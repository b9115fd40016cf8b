package cluster

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// What an agent has reported is remembered by hashes beside what the cache has of it,
// so that the next stream need not report it again. The two are not the same: results
// change the cache, and a report of an older epoch does not. Where they differ the
// agent is asked.

// Differing are the buckets of which the agent must send all: what it holds is
// not what it reported, or what the cache has is not.
func (p *Cache) Differing(theirs *convert.Digest) convert.BucketSet {
	p.mu.Lock()
	defer p.mu.Unlock()
	differ := p.reported.Digest().Differing(theirs)
	for key, item := range p.items {
		if _, reported := p.reported.Has(key); !reported && !awaitsRecording(item) {
			differ.Add(convert.BucketOf(string(item.Spec.Session.UID)))
		}
	}
	for key := range p.altered {
		if bucket, reported := p.reported.Has(key); reported {
			differ.Add(bucket)
		}
	}
	return differ
}

// Replace makes the cache equal to all that the member holds in some
// buckets. Watchers get only what differs. What awaits recording
// (Stopped, Refused) was reported by results and is in no inventory: it stays. In
// mid-stream, what has stopped stays so: the page was on its way. It returns how
// many items were stale.
func (p *Cache) Replace(buckets convert.BucketSet, items []protocol.Report, midStream bool) (stale int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reported.DeleteBuckets(buckets)
	p.forgetUnreported()
	named := make(map[types.NamespacedName]bool, len(items))
	for i := range items {
		named[keyOf(items[i].SessionAssignment)] = true
		if !p.applyReport(&items[i], midStream) {
			stale++
		}
	}
	for key, item := range p.items {
		if !named[key] && !awaitsRecording(item) && buckets.Has(convert.BucketOf(string(item.Spec.Session.UID))) {
			p.drop(key)
		}
	}
	p.forgetAltered()
	return stale
}

// forgetAltered drops the marks of what is not reported any more: while the cache has it
// it is asked for anyway.
func (p *Cache) forgetAltered() {
	for key := range p.altered {
		if _, reported := p.reported.Has(key); !reported {
			delete(p.altered, key)
		}
	}
}

// Apply takes the newest reports. The end of an assignment changes nothing that
// is shown: that is for the result that it has Stopped. It returns how many
// were stale.
func (p *Cache) Apply(reports []protocol.Report) (stale int) {
	p.mu.Lock()
	defer p.mu.Unlock()
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

// removeReported notes that the agent holds nothing under a name any more.
func (p *Cache) removeReported(key types.NamespacedName, session types.UID) {
	p.reported.Delete(key)
	delete(p.altered, key)
	p.assigned -= p.hidden[key]
	delete(p.hidden, key)
	if p.names[session] == key && p.items[key] == nil {
		delete(p.names, session)
	}
}

// applyReport notes a report, and shows it if it is not stale and within the bounds. It
// says whether it was not stale.
func (p *Cache) applyReport(r *protocol.Report, midStream bool) bool {
	key := keyOf(r.SessionAssignment)
	if r.Unread {
		if p.keepUnread(key, r.SessionAssignment) != keepNothing {
			p.reported.Set(key, convert.BucketOf(string(r.Spec.Session.UID)), r.Hash)
			p.altered[key] = true
		}
		return true
	}
	current := false
	if midStream {
		current = p.putUnlessStopped(r.SessionAssignment)
	} else {
		current = p.put(r.SessionAssignment)
	}
	if p.excess != nil {
		return current
	}
	p.reported.Set(key, convert.BucketOf(string(r.Spec.Session.UID)), r.Hash)
	if current {
		delete(p.altered, key)
	} else {
		p.altered[key] = true
	}
	return current
}

// Sums returns the digests of what was reported, and of what the member is believed to
// hold.
func (p *Cache) Sums() protocol.Sums {
	p.mu.Lock()
	defer p.mu.Unlock()
	return protocol.Sums{Reported: p.reported.Digest().Sum(), Assigned: p.assigned}
}

// Held returns the items that the member holds, which must not be changed: all but
// those that await recording.
func (p *Cache) Held() []*v1alpha1.SessionAssignment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Values(p.items)), awaitsRecording)
}

// assignedHash is what an item adds to the digest of the assigned set: nothing
// if the member does not hold it.
func assignedHash(item *v1alpha1.SessionAssignment) uint64 {
	if item == nil || awaitsRecording(item) {
		return 0
	}
	return convert.AssignedHash(string(item.Spec.Session.UID), item.Spec.Epoch, item.Annotations[v1alpha1.AnnotationSpecHash])
}
