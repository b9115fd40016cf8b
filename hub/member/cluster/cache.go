package cluster

import (
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Cache has the SessionAssignments of a member as its agent last reported them.
//
// Its objects are never changed once stored: a report replaces them.
type Cache struct {
	// Bounds limit what is kept; they must not change after the first report.
	Bounds
	// mu protects all fields except quota.seen.
	mu    sync.Mutex
	store store
	// handlers are notified of changes; the slice is replaced, never changed.
	handlers []*registration
	reported reports
	quota    quota
}

// newCache returns an empty cache. Without the functions every session counts as known
// and placed.
func newCache(known func(session types.UID, epoch int64, proof string) bool, placed func(session types.UID) bool) *Cache {
	p := &Cache{
		Bounds:   defaultBounds,
		store:    store{items: map[types.NamespacedName]*packed{}},
		reported: reports{altered: map[types.NamespacedName]bool{}},
		quota: quota{
			isKnown: known, placed: placed,
			names: map[types.UID]types.NamespacedName{}, visible: map[types.NamespacedName]int{}, hidden: map[types.NamespacedName]uint64{},
		},
	}
	p.quota.Bounds = &p.Bounds
	return p
}

// Forget drops a stopped or refused assignment if the cache has it in this version.
func (p *Cache) Forget(key types.NamespacedName, resourceVersion string) {
	p.mu.Lock()
	defer p.unlock()
	if old := p.store.get(key); old != nil && awaitsRecording(old) && old.ResourceVersion == resourceVersion {
		p.replace(key, old, nil)
	}
}

// ExpectStop records that everything of a session up to an epoch is to stop, so that the
// result counts whatever the cache has, even if the session is gone from the hub. It
// returns whether the stop is still to be confirmed.
func (p *Cache) ExpectStop(key types.NamespacedName, session types.UID, upTo int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.store.get(key)
	if old == nil {
		p.quota.names[session] = key
	}
	return old == nil || !awaitsRecording(old) || old.Spec.Epoch < upTo
}

// replace replaces the item under a key, if there is one, by a result; nil drops it.
func (p *Cache) replace(key types.NamespacedName, old, next *v1alpha1.SessionAssignment) {
	if next == old {
		return
	}
	if p.reported.isReported(key) {
		p.reported.altered[key] = true
	}
	if next == nil {
		p.drop(key, old)
	} else {
		p.set(key, old, next)
	}
}

// Items returns copies of all items.
func (p *Cache) Items() []*v1alpha1.SessionAssignment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.store.all()
}

// Reported returns the keys of all items, each with whether it is active.
func (p *Cache) Reported() map[types.NamespacedName]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[types.NamespacedName]bool, len(p.store.items))
	for key, item := range p.store.items {
		out[key] = item.status.State == v1alpha1.AssignmentActive
	}
	return out
}

// Len returns how many assignments the cache has, and of how many it has the hash of the
// agent's last report.
func (p *Cache) Len() (items, reported int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.store.items), p.reported.hashes.Len()
}

// Get returns a copy of the item under a key, or nil.
func (p *Cache) Get(key types.NamespacedName) *v1alpha1.SessionAssignment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.store.get(key)
}

// put adds an item, within the bounds, and reports whether it is current. It is stale if the
// cache has a newer epoch (G2), and in mid-stream also if its epoch has stopped: it was sent
// before the stop.
func (p *Cache) put(item *v1alpha1.SessionAssignment, midStream bool) bool {
	key := keyOf(item)
	old := p.store.get(key)
	if old != nil && (old.Spec.Epoch > item.Spec.Epoch ||
		midStream && old.Spec.Epoch == item.Spec.Epoch && old.Status.State == v1alpha1.AssignmentStopped) {
		return false
	}
	switch p.quota.keep(key, old, item) {
	case keepAll:
		if old == nil || !sameReport(old, item) {
			p.set(key, old, item)
		}
	case evict:
		p.drop(key, old)
	case keepHash, keepNothing:
	}
	return true
}

func (p *Cache) set(key types.NamespacedName, old, item *v1alpha1.SessionAssignment) {
	p.quota.recount(key, old, item)
	p.store.set(key, old, item)
}

func (p *Cache) drop(key types.NamespacedName, old *v1alpha1.SessionAssignment) {
	p.quota.recount(key, old, nil)
	p.store.drop(key, old)
}

// TakeExcess returns, once, the reason why the stream must end, and updates the orphans
// that conditions show.
func (p *Cache) TakeExcess() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quota.recordOrphans()
	err := p.quota.excess
	p.quota.excess = nil
	return err
}

// Orphans describes the orphans of the last report for a condition, or is empty. It
// acquires no lock.
func (p *Cache) Orphans() string {
	o := p.quota.seen.Load()
	if o == nil || o.count == 0 {
		return ""
	}
	text := fmt.Sprintf("%d assignments there are orphans, which the hub did not place and does not stop", o.count)
	if len(o.some) > 0 {
		text += ", such as " + strings.Join(o.some, ", ")
	}
	return text + ": delete those that are not needed in the member, with kubectl delete sessionassignment"
}

func keyOf(item *v1alpha1.SessionAssignment) types.NamespacedName {
	return types.NamespacedName{Namespace: item.Namespace, Name: item.Name}
}

// awaitsRecording reports whether the hub still has to record the item on the session.
func awaitsRecording(item *v1alpha1.SessionAssignment) bool { return ended(item.Status.State) }

func ended(s v1alpha1.AssignmentState) bool {
	return s == v1alpha1.AssignmentStopped || s == v1alpha1.AssignmentRefused
}

func sameReport(a, b *v1alpha1.SessionAssignment) bool {
	return a.Spec.Epoch == b.Spec.Epoch && a.Spec.Session == b.Spec.Session && a.Spec.Proof == b.Spec.Proof &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.Status, b.Status)
}
