package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// errNotCached is returned for what a member's agent does not report.
var errNotCached = errors.New("a member's cache has its SessionAssignments and nothing else")

// reader is a Cache as controllers see it: a cache.Cache. It is its own informer, without a copy of
// the objects, a goroutine or a queue, since a hub has one for each of its members: the goroutine
// that changes the cache calls the handlers.
type reader struct{ *Cache }

var (
	_ cache.Cache    = reader{}
	_ cache.Informer = reader{}
)

// Get returns a copy of an item.
func (r reader) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	into, ok := o.(*v1alpha1.SessionAssignment)
	if !ok {
		return fmt.Errorf("reading %T: %w", o, errNotCached)
	}
	item := r.Cache.Get(key)
	if item == nil {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("sessionassignments").GroupResource(), key.Name)
	}
	*into = *item
	return nil
}

// List returns copies of the items of a namespace, or of all.
func (r reader) List(_ context.Context, o client.ObjectList, options ...client.ListOption) error {
	into, ok := o.(*v1alpha1.SessionAssignmentList)
	if !ok {
		return fmt.Errorf("reading %T: %w", o, errNotCached)
	}
	by := (&client.ListOptions{}).ApplyOptions(options)
	if by.LabelSelector != nil || by.FieldSelector != nil {
		return fmt.Errorf("selecting by labels or fields: %w", errNotCached)
	}
	items := r.Items()
	into.Items = make([]v1alpha1.SessionAssignment, 0, len(items))
	for _, item := range items {
		if by.Namespace != "" && by.Namespace != item.Namespace {
			continue
		}
		into.Items = append(into.Items, *item)
	}
	return nil
}

// GetInformer returns the reader itself.
func (r reader) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if _, ok := o.(*v1alpha1.SessionAssignment); !ok {
		return nil, fmt.Errorf("an informer of %T: %w", o, errNotCached)
	}
	return r, nil
}

// GetInformerForKind returns the reader itself.
func (r reader) GetInformerForKind(_ context.Context, kind schema.GroupVersionKind, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if kind != v1alpha1.GroupVersion.WithKind("SessionAssignment") {
		return nil, fmt.Errorf("an informer of %s: %w", kind, errNotCached)
	}
	return r, nil
}

// RemoveInformer is not supported.
func (reader) RemoveInformer(context.Context, client.Object) error { return errReadOnly }

// IndexField is not supported: assignments are read by name.
func (reader) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return fmt.Errorf("indexing: %w", errNotCached)
}

// AddIndexers is not supported either.
func (reader) AddIndexers(toolscache.Indexers) error { return fmt.Errorf("indexing: %w", errNotCached) }

// Start waits for the end of the context: agents' reports change the cache.
func (reader) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// WaitForCacheSync is true: a member is engaged after its first inventory.
func (reader) WaitForCacheSync(context.Context) bool { return true }

// HasSynced is true for the same reason.
func (reader) HasSynced() bool { return true }

// HasSyncedChecker returns one that is done.
func (reader) HasSyncedChecker() toolscache.DoneChecker { return synced{} }

// IsStopped is false: the cache outlives its users.
func (reader) IsStopped() bool { return false }

// AddEventHandler calls a handler for every item that there is, and then for every change, from the
// goroutine that changes the cache and without its lock. Calls for changes by several goroutines
// may come in another order; a handler must not block.
func (r reader) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	registration := &registration{handler: h}
	r.mu.Lock()
	r.handlers = append(slices.Clip(r.handlers), registration)
	items := r.store.all()
	r.mu.Unlock()
	for _, item := range items {
		h.OnAdd(item, true)
	}
	return registration, nil
}

// AddEventHandlerWithResyncPeriod is AddEventHandler: nothing is to be repeated.
func (r reader) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return r.AddEventHandler(h)
}

// AddEventHandlerWithOptions is AddEventHandler.
func (r reader) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return r.AddEventHandler(h)
}

// RemoveEventHandler ends the calls of a handler.
func (r reader) RemoveEventHandler(added toolscache.ResourceEventHandlerRegistration) error {
	removed, ok := added.(*registration)
	if !ok {
		return fmt.Errorf("a handler that was added to another informer: %T", added)
	}
	removed.ended.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handlers = slices.DeleteFunc(slices.Clone(r.handlers), func(other *registration) bool { return other == removed })
	return nil
}

// registration is a handler of a cache's changes.
type registration struct {
	handler toolscache.ResourceEventHandler
	ended   atomic.Bool
}

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (*registration) HasSynced() bool { return true }

// HasSyncedChecker implements toolscache.ResourceEventHandlerRegistration.
func (*registration) HasSyncedChecker() toolscache.DoneChecker { return synced{} }

// synced is a DoneChecker that is done.
type synced struct{}

var done = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (synced) Name() string          { return "member" }
func (synced) Done() <-chan struct{} { return done }

// change is a change of an item: before is nil for an addition, after for a removal.
type change struct{ before, after *v1alpha1.SessionAssignment }

// unlock releases the lock, and calls the handlers for what has changed under it.
func (p *Cache) unlock() {
	changes, handlers := p.store.changes, p.handlers
	p.store.changes = nil
	p.mu.Unlock()
	for _, h := range handlers {
		for _, c := range changes {
			if !h.ended.Load() {
				c.notify(h.handler)
			}
		}
	}
}

func (c change) notify(h toolscache.ResourceEventHandler) {
	switch {
	case c.before == nil:
		h.OnAdd(c.after, false)
	case c.after == nil:
		h.OnDelete(c.before)
	default:
		h.OnUpdate(c.before, c.after)
	}
}
