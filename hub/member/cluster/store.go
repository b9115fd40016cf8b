package cluster

import (
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// store has a cache's objects, and the watches that receive them.
type store struct {
	version  uint64
	items    map[types.NamespacedName]*v1alpha1.SessionAssignment
	watchers map[*cacheWatch]struct{}
	// assigned is the digest of the items that the member has.
	assigned uint64
	// next is the watch that list opened, for watch to return.
	next *cacheWatch
}

func (s *store) set(key types.NamespacedName, item *v1alpha1.SessionAssignment) {
	s.assigned += assignedHash(item) - assignedHash(s.items[key])
	s.version++
	item.ResourceVersion = strconv.FormatUint(s.version, 10)
	s.items[key] = item
	for w := range s.watchers {
		// Informers treat Modified for an unknown item as an addition.
		w.add(key, watch.Event{Type: watch.Modified, Object: item})
	}
}

func (s *store) drop(key types.NamespacedName) {
	old, ok := s.items[key]
	if !ok {
		return
	}
	s.assigned -= assignedHash(old)
	s.version++
	gone := old.DeepCopy()
	gone.ResourceVersion = strconv.FormatUint(s.version, 10)
	delete(s.items, key)
	for w := range s.watchers {
		w.add(key, watch.Event{Type: watch.Deleted, Object: gone})
	}
}

// list returns all items, and opens the watch that begins right after.
func (s *store) list(forget func(*cacheWatch)) *v1alpha1.SessionAssignmentList {
	if s.next != nil {
		delete(s.watchers, s.next)
	}
	s.next = newCacheWatch(forget)
	s.watchers[s.next] = struct{}{}
	list := &v1alpha1.SessionAssignmentList{Items: make([]v1alpha1.SessionAssignment, 0, len(s.items))}
	list.ResourceVersion = strconv.FormatUint(s.version, 10)
	for _, item := range s.items {
		list.Items = append(list.Items, *item)
	}
	return list
}

func (s *store) watch() (watch.Interface, error) {
	if s.next == nil {
		return nil, apierrors.NewResourceExpired("list first")
	}
	w := s.next
	s.next = nil
	go w.pump()
	return w, nil
}
