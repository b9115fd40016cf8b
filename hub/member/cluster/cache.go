package cluster

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// Cache has the SessionAssignments of a member as its agent last reported them. It
// is a client-go ListerWatcher, so that an informer can be fed from it.
//
// Its objects are never changed once stored: a report replaces them.
type Cache struct {
	mu       sync.Mutex
	version  uint64
	items    map[types.NamespacedName]*v1alpha1.SessionAssignment
	watchers map[*cacheWatch]struct{}
	// reported is what the agent has reported of each, by hashes: see
	// cache_reports.go.
	reported convert.Ledger[types.NamespacedName]
	// altered are those of reported that the cache does not have as they were reported:
	// results have changed them since, or the report was not applied.
	altered map[types.NamespacedName]bool
	// assigned is the digest of what the member is believed to hold.
	assigned uint64
	// next was opened by List and waits for Watch.
	next *cacheWatch
	limits
}

// newCache returns an empty cache. Without the functions every session counts as
// known and placed.
func newCache(knows func(session types.UID, epoch int64, proof string) bool, placed func(session types.UID) bool) *Cache {
	return &Cache{
		items:    map[types.NamespacedName]*v1alpha1.SessionAssignment{},
		watchers: map[*cacheWatch]struct{}{},
		altered:  map[types.NamespacedName]bool{},
		limits:   newLimits(knows, placed),
	}
}

// putUnlessStopped adds a report and returns whether it is current. One of an older epoch than
// the cache has is stale (promise 2), and so is one of an epoch that has stopped:
// the report was on its way.
func (p *Cache) putUnlessStopped(item *v1alpha1.SessionAssignment) bool {
	old := p.items[keyOf(item)]
	if old != nil && old.Status.State == v1alpha1.AssignmentStopped && item.Spec.Epoch <= old.Spec.Epoch {
		return false
	}
	return p.put(item)
}

// Forget drops the end of an assignment that the cache shows in this version.
func (p *Cache) Forget(key types.NamespacedName, resourceVersion string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.update(key, func(old *v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment {
		if old != nil && awaitsRecording(old) && old.ResourceVersion == resourceVersion {
			return nil
		}
		return old
	})
}

// ExpectStop notes that everything of a session up to an epoch is to stop, so that
// the result counts whatever the cache has, and although the session may be gone from
// the hub. It returns whether that is still to be done.
func (p *Cache) ExpectStop(key types.NamespacedName, session types.UID, upTo int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.items[key]
	if old == nil {
		p.names[session] = key
	}
	return old == nil || !awaitsRecording(old) || old.Spec.Epoch < upTo
}

// update replaces the item under a key by what f makes of it; nil drops it.
// f gets nil where there is none, and must not change what it gets.
func (p *Cache) update(key types.NamespacedName, f func(*v1alpha1.SessionAssignment) *v1alpha1.SessionAssignment) {
	next := f(p.items[key])
	if next == p.items[key] {
		return
	}
	if _, reported := p.reported.Has(key); reported {
		p.altered[key] = true
	}
	if next == nil {
		p.drop(key)
	} else {
		p.set(key, next)
	}
}

// Items returns all of them, which must not be changed.
func (p *Cache) Items() []*v1alpha1.SessionAssignment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Values(p.items))
}

// Len returns how many assignments the cache has, and of how many the agent's last
// report is remembered.
func (p *Cache) Len() (items, remembered int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.items), p.reported.Len()
}

// Get returns the item under a key, or nil. It must not be changed.
func (p *Cache) Get(key types.NamespacedName) *v1alpha1.SessionAssignment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.items[key]
}

// put reports whether the item is not stale: it is if the cache has a newer epoch.
// It is shown, unless it is beyond the bounds.
func (p *Cache) put(item *v1alpha1.SessionAssignment) bool {
	key := keyOf(item)
	old := p.items[key]
	if old != nil && old.Spec.Epoch > item.Spec.Epoch {
		return false
	}
	if p.keep(key, item) != keepAll {
		return true
	}
	old = p.items[key]
	if old == nil || !sameReport(old, item) {
		p.set(key, item)
	}
	return true
}

func (p *Cache) set(key types.NamespacedName, item *v1alpha1.SessionAssignment) {
	p.assigned += assignedHash(item) - assignedHash(p.items[key])
	p.recount(key, p.items[key], item)
	p.version++
	item.ResourceVersion = strconv.FormatUint(p.version, 10)
	p.items[key] = item
	for w := range p.watchers {
		w.push(key, item)
	}
}

func (p *Cache) drop(key types.NamespacedName) {
	old, ok := p.items[key]
	if !ok {
		return
	}
	p.assigned -= assignedHash(old)
	p.recount(key, old, nil)
	p.version++
	gone := old.DeepCopy()
	gone.ResourceVersion = strconv.FormatUint(p.version, 10)
	delete(p.items, key)
	for w := range p.watchers {
		w.pushDeleted(key, gone)
	}
}

// List returns a snapshot, and under the same lock opens the watch that begins
// right after it, for Watch to hand out: nothing can slip in between. client-go's
// reflector calls both.
func (p *Cache) List(metav1.ListOptions) (runtime.Object, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != nil {
		delete(p.watchers, p.next)
	}
	p.next = newCacheWatch(p.forget)
	p.watchers[p.next] = struct{}{}
	list := &v1alpha1.SessionAssignmentList{Items: make([]v1alpha1.SessionAssignment, 0, len(p.items))}
	list.ResourceVersion = strconv.FormatUint(p.version, 10)
	for _, item := range p.items {
		list.Items = append(list.Items, *item)
	}
	return list, nil
}

// Watch returns the watch that the last List opened. A second one without a
// List before it must list first.
func (p *Cache) Watch(metav1.ListOptions) (watch.Interface, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		return nil, apierrors.NewResourceExpired("list first")
	}
	w := p.next
	p.next = nil
	w.start()
	return w, nil
}

func (p *Cache) forget(w *cacheWatch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watchers, w)
}

// IsWatchListSemanticsUnSupported has the reflector list, then watch.
func (p *Cache) IsWatchListSemanticsUnSupported() bool { return true }

func keyOf(item *v1alpha1.SessionAssignment) types.NamespacedName {
	return types.NamespacedName{Namespace: item.Namespace, Name: item.Name}
}

// awaitsRecording is true of what the hub must still write on the session.
func awaitsRecording(item *v1alpha1.SessionAssignment) bool {
	return item.Status.State == v1alpha1.AssignmentStopped || item.Status.State == v1alpha1.AssignmentRefused
}

func sameReport(a, b *v1alpha1.SessionAssignment) bool {
	return a.Spec.Epoch == b.Spec.Epoch && a.Spec.Session == b.Spec.Session && a.Spec.Proof == b.Spec.Proof &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		equality.Semantic.DeepEqual(a.Status, b.Status)
}
