package trim

import (
	"encoding/json"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// MaxSize is how many bytes the cache keeps of a session's spec besides env and files,
	// or of an object's metadata. No schema bounds all of these.
	MaxSize = 32 << 10
	// AnnotationOmitted is set on cached copies of which something was removed: its size
	// in bytes if it was too large, else zero. It never exists in the API server. It also
	// keeps a merge patch from removing all annotations with the last one that the copy
	// has.
	AnnotationOmitted = "vdi.kasm.io/left-out"
)

// Transform adapts a trim function to the cache. It may be called again with a trimmed
// object.
func Transform[T client.Object](trim func(T)) func(any) (any, error) {
	return func(o any) (any, error) {
		if object, ok := o.(T); ok {
			object.SetManagedFields(nil)
			trim(object)
		}
		return o, nil
	}
}

// MetadataSize is the size in bytes of an object's labels, annotations, owners and
// finalizers.
func MetadataSize(o client.Object) int {
	raw, _ := json.Marshal([]any{o.GetLabels(), o.GetAnnotations(), o.GetOwnerReferences(), o.GetFinalizers()}) // plain text
	return len(raw)
}

// Omit records that something of a given size was removed.
func Omit(o client.Object, size int) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationOmitted] = strconv.Itoa(size)
	o.SetAnnotations(annotations)
}

// Omitted returns the size in bytes of what was removed from an object because it was too
// large, or zero.
func Omitted(o metav1.Object) int {
	size, _ := strconv.Atoi(o.GetAnnotations()[AnnotationOmitted])
	return size
}
