package trim

import (
	"maps"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxShared is the number of maps or lists of a kind that are remembered to be shared, and
	// maxSharedSize the size of their contents.
	maxShared     = 4096
	maxSharedSize = 512
)

var (
	sharedStrings   = lru.New(maxShared)
	sharedResources = lru.New(maxShared)
	sharedLists     = lru.New(maxShared)
)

// Strings makes equal strings share their memory.
func Strings(texts ...*string) {
	for _, s := range texts {
		*s = unique.Make(*s).Value()
	}
}

// Metadata makes a cached object share what most objects of its kind have in common: labels,
// annotations, finalizers, and the kinds of its owners. A map takes 0.4 KiB, however small it is.
// Objects in the cache are never changed.
func Metadata(o client.Object) {
	text := func(s string) string { return s }
	o.SetLabels(shared(sharedStrings, o.GetLabels(), text))
	o.SetAnnotations(shared(sharedStrings, o.GetAnnotations(), text))
	o.SetFinalizers(List(o.GetFinalizers()))
	owners := o.GetOwnerReferences()
	for i := range owners {
		Strings(&owners[i].APIVersion, &owners[i].Kind)
	}
	o.SetOwnerReferences(owners)
	namespace := o.GetNamespace()
	Strings(&namespace)
	o.SetNamespace(namespace)
}

// List returns an equal list, which other objects share, unless it is large.
func List(list []string) []string {
	key := strings.Join(list, "\x00")
	if len(list) == 0 || len(key) > maxSharedSize {
		return list
	}
	if same, ok := sharedLists.Get(key); ok && slices.Equal(same.([]string), list) {
		return same.([]string)
	}
	list = slices.Clip(list)
	sharedLists.Add(key, list)
	return list
}

// Resources returns an equal list, which other objects share.
func Resources(list corev1.ResourceList) corev1.ResourceList {
	return shared(sharedResources, list, func(q resource.Quantity) string { return q.String() })
}

// shared returns an equal map, which others share, unless it is large.
func shared[M ~map[K]V, K ~string, V any](known *lru.Cache, m M, text func(V) string) M {
	if len(m) == 0 {
		return m
	}
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		key.WriteString(string(name) + "\x00" + text(m[name]) + "\x00")
		if key.Len() > maxSharedSize {
			return m
		}
	}
	if same, ok := known.Get(key.String()); ok {
		return same.(M)
	}
	known.Add(key.String(), m)
	return m
}
