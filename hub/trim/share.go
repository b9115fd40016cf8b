package trim

import (
	"maps"
	"slices"
	"strings"

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
	// maxTexts is the number of texts that are remembered: for each of a thousand members its name, its
	// UID and a message, and as much again.
	maxTexts = 8192
)

var (
	sharedTexts     = lru.New(maxTexts)
	sharedStrings   = lru.New(maxShared)
	sharedResources = lru.New(maxShared)
	sharedLists     = lru.New(maxShared)
)

// Strings makes equal strings share their memory, unless they are large. Package unique remembers a
// value only until the next garbage collection, unless its handle is kept.
func Strings(texts ...*string) {
	for _, s := range texts {
		if len(*s) == 0 || len(*s) > maxSharedSize {
			continue
		}
		same, known := sharedTexts.Get(*s)
		if !known {
			same = strings.Clone(*s)
			sharedTexts.Add(same, same)
		}
		*s = same.(string)
	}
}

// Pack makes texts parts of one, since garbage collection takes time for each object.
func Pack(texts ...*string) {
	var all strings.Builder
	for _, s := range texts {
		all.WriteString(*s)
	}
	rest := all.String()
	for _, s := range texts {
		*s, rest = rest[:len(*s)], rest[len(*s):]
	}
}

// Data returns equal data, whose names other objects share and whose values are packed.
func Data(data map[string][]byte) map[string][]byte {
	if len(data) == 0 {
		return data
	}
	var size int
	for _, value := range data {
		size += len(value)
	}
	all, out := make([]byte, 0, size), make(map[string][]byte, len(data))
	for name, value := range data {
		Strings(&name)
		first := len(all)
		all = append(all, value...)
		out[name] = all[first:len(all):len(all)]
	}
	return out
}

// Metadata makes a cached object share what most objects of its kind have in common: labels,
// annotations, finalizers, and the kinds of its owners. A map takes 0.4 KiB, however small it is.
// What it alone has is packed, together with more of its texts. Objects in the cache are never
// changed.
func Metadata(o client.Object, more ...*string) {
	text := func(s string) string { return s }
	o.SetLabels(shared(sharedStrings, o.GetLabels(), text))
	o.SetAnnotations(shared(sharedStrings, o.GetAnnotations(), text))
	o.SetFinalizers(List(o.GetFinalizers()))
	namespace, name, uid, version := o.GetNamespace(), o.GetName(), o.GetUID(), o.GetResourceVersion()
	own := append(more, &name, (*string)(&uid), &version)
	owners := o.GetOwnerReferences()
	for i := range owners {
		Strings(&owners[i].APIVersion, &owners[i].Kind)
		own = append(own, &owners[i].Name, (*string)(&owners[i].UID))
	}
	Strings(&namespace)
	Pack(own...)
	o.SetNamespace(namespace)
	o.SetName(name)
	o.SetUID(uid)
	o.SetResourceVersion(version)
	o.SetOwnerReferences(owners)
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
