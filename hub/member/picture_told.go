package member

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// What an agent has told is remembered by hashes beside what the
// picture shows of it, so that the next stream need not tell it again. The two
// are not the same: results change what is shown, and a report of an older
// epoch is told and not shown. Where they differ the agent is asked.

// Differing are the buckets of which the agent must send all: what it holds is
// not what it told, or what is shown is not.
func (p *picture) Differing(theirs *convert.Digest) convert.BucketSet {
	p.mu.Lock()
	defer p.mu.Unlock()
	differ := p.told.Digest().Differing(theirs)
	for key, item := range p.items {
		if _, told := p.told.Has(key); !told && !awaitsRecording(item) {
			differ.Add(convert.BucketOf(string(item.Spec.Session.UID)))
		}
	}
	for key := range p.altered {
		if bucket, told := p.told.Has(key); told {
			differ.Add(bucket)
		}
	}
	return differ
}

// ReplaceIn makes the picture equal to all that the member holds in some
// buckets. Only what differs is told to the watchers. What awaits recording
// (Stopped, Refused) was said by results and is in no inventory: it stays. In
// mid-stream, what has stopped stays so: the page was on its way. It returns how
// many items were stale.
func (p *picture) ReplaceIn(buckets convert.BucketSet, items []link.Report, midStream bool) (stale int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told.DeleteBuckets(buckets)
	p.forgetUntold()
	named := make(map[types.NamespacedName]bool, len(items))
	for i := range items {
		named[keyOf(items[i].SessionAssignment)] = true
		stale += count(!p.tell(&items[i], midStream))
	}
	for key, item := range p.items {
		if !named[key] && !awaitsRecording(item) && buckets.Has(convert.BucketOf(string(item.Spec.Session.UID))) {
			p.drop(key)
		}
	}
	p.forgetAltered()
	return stale
}

// forgetAltered drops the marks of what is not told any more: while it is shown
// it is asked for anyway.
func (p *picture) forgetAltered() {
	for key := range p.altered {
		if _, told := p.told.Has(key); !told {
			delete(p.altered, key)
		}
	}
}

// Tell takes the newest reports. The end of an assignment changes nothing that
// is shown: that is for the result that it has Stopped. It returns how many
// were stale.
func (p *picture) Tell(reports []link.Report) (stale int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range reports {
		if key := keyOf(reports[i].SessionAssignment); reports[i].Gone {
			p.forgetTold(key, reports[i].Spec.Session.UID)
			continue
		}
		stale += count(!p.tell(&reports[i], true))
	}
	return stale
}

// forgetTold notes that the agent holds nothing under a name any more.
func (p *picture) forgetTold(key types.NamespacedName, session types.UID) {
	p.told.Delete(key)
	delete(p.altered, key)
	p.assigned -= p.hidden[key]
	delete(p.hidden, key)
	if p.names[session] == key && p.items[key] == nil {
		delete(p.names, session)
	}
}

// tell notes a report, and shows it if it is not stale and within the bounds. It
// says whether it was not stale.
func (p *picture) tell(r *link.Report, midStream bool) bool {
	key := keyOf(r.SessionAssignment)
	if r.Unread {
		if p.keepUnread(key, r.SessionAssignment) != keepNothing {
			p.told.Set(key, convert.BucketOf(string(r.Spec.Session.UID)), r.Hash)
			p.altered[key] = true
		}
		return true
	}
	current := false
	if midStream {
		current = p.apply(r.SessionAssignment)
	} else {
		current = p.put(r.SessionAssignment)
	}
	if p.excess != nil {
		return current
	}
	p.told.Set(key, convert.BucketOf(string(r.Spec.Session.UID)), r.Hash)
	if current {
		delete(p.altered, key)
	} else {
		p.altered[key] = true
	}
	return current
}

// Sums are the digests of what was told, and of what the member is believed to
// hold.
func (p *picture) Sums() link.Sums {
	p.mu.Lock()
	defer p.mu.Unlock()
	return link.Sums{Reported: p.told.Digest().Sum(), Assigned: p.assigned}
}

// Held are the items that the member holds, which must not be changed.
func (p *picture) Held() []*v1alpha1.SessionAssignment {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := make([]*v1alpha1.SessionAssignment, 0, len(p.items))
	for _, item := range p.items {
		if !awaitsRecording(item) {
			held = append(held, item)
		}
	}
	return held
}

// assignedHash is what an item adds to the digest of the assigned set: nothing
// if the member does not hold it.
func assignedHash(item *v1alpha1.SessionAssignment) uint64 {
	if item == nil || awaitsRecording(item) {
		return 0
	}
	return convert.AssignedHash(string(item.Spec.Session.UID), item.Spec.Epoch, item.Annotations[v1alpha1.AnnotationSpecHash])
}
