package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// largestSpec is how many bytes the cache keeps of what a session asks for besides
	// env and files, its labels and owners included. No schema bounds all of these.
	largestSpec = 32 << 10
	// largestAccess is how many bytes the cache keeps of an access secret's data before
	// it leaves out all keys but those that travel.
	largestAccess = 4 << 10
	// annotationLeftOut is on the cache's copy of an object of which something was left
	// out: the size in bytes where that is why, else zero. An API server never has it.
	// It also keeps a merge patch from taking away all annotations with the last one
	// that the copy has.
	annotationLeftOut = "vdi.kasm.io/left-out"
)

// sessionAnnotations are those that the hub reads of a session.
var sessionAnnotations = []string{v1alpha1.AnnotationForceCleanup, v1alpha1.AnnotationMove, annotationLeftOut}

// Cached is what the hub's cache holds of objects that users write: no more of each
// than the hub needs, whatever they put there. own is the hub's namespace, served are
// those whose sessions it serves; none: all.
func Cached(own string, served []string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&v1alpha1.VDISession{}:      {Transform: transform(trimSession)},
		&v1alpha1.PlacementReview{}: {Transform: transform(trimReview)},
		&corev1.Secret{}:            cachedSecrets(own, served),
	}
}

// cachedSecrets are access secrets in the namespaces of sessions, and Secrets to
// distribute in the hub's own.
func cachedSecrets(own string, served []string) cache.ByObject {
	access := cache.Config{LabelSelector: labelled(v1alpha1.SecretAccess)}
	namespaces := map[string]cache.Config{}
	for _, namespace := range served {
		namespaces[namespace] = access
	}
	if len(served) == 0 {
		namespaces[cache.AllNamespaces] = access
	}
	here := cache.Config{LabelSelector: labelled(v1alpha1.SecretDistribute)}
	if len(served) == 0 || slices.Contains(served, own) {
		here.LabelSelector = labelled(v1alpha1.SecretAccess, v1alpha1.SecretDistribute)
	}
	namespaces[own] = here
	return cache.ByObject{Namespaces: namespaces, Transform: transform(trimSecret)}
}

func labelled(values ...string) labels.Selector {
	in, err := labels.NewRequirement(v1alpha1.LabelSecret, selection.In, values)
	if err != nil {
		panic(err) // the label is none: a mistake in the program
	}
	return labels.NewSelector().Add(*in)
}

// transform calls trim with an object that is about to be cached. It may be called
// again with what it has trimmed.
func transform[T client.Object](trim func(T)) func(any) (any, error) {
	return func(o any) (any, error) {
		if object, ok := o.(T); ok {
			object.SetManagedFields(nil)
			trim(object)
		}
		return o, nil
	}
}

// trimSession leaves out what the hub does not read. It renders env and files of
// sessions that are placed alone, and one that is placed later comes once more: of
// others it keeps the names, by which a session is accepted.
func trimSession(s *v1alpha1.VDISession) {
	keepAnnotations(s)
	trimSpec(s, &s.Spec, &s.Labels)
	if s.Status.Placement == nil {
		trimPayload(&s.Spec)
	}
}

// trimReview leaves out the payload of env and files, by which nothing is placed.
func trimReview(review *v1alpha1.PlacementReview) {
	keepAnnotations(review)
	review.Labels = nil
	spec := review.Spec.Session
	if spec == nil {
		spec = &v1alpha1.SessionSpec{}
	}
	trimSpec(review, spec, &review.Spec.Labels)
	trimPayload(spec)
}

// trimPayload leaves out the values of env and the contents of files.
func trimPayload(spec *v1alpha1.SessionSpec) {
	for i := range spec.Env {
		spec.Env[i] = v1alpha1.EnvVar{Name: spec.Env[i].Name}
	}
	for i := range spec.Files {
		spec.Files[i] = v1alpha1.ConfigFile{Name: spec.Files[i].Name}
	}
}

// keepAnnotations drops those that the hub does not read, such as the one with which
// kubectl keeps the object a second time. Of the others a merge patch removes one at
// a time, since there is always another.
func keepAnnotations(o client.Object) {
	kept := map[string]string{annotationLeftOut: "0"}
	for _, name := range sessionAnnotations {
		if value, has := o.GetAnnotations()[name]; has {
			kept[name] = truncate(value)
		}
	}
	if len(o.GetAnnotations()) > 0 {
		o.SetAnnotations(kept)
	}
}

// trimSpec leaves out what is too large, so that the session is not accepted. Of
// finalizers it keeps the hub's own: with it the others go.
func trimSpec(o client.Object, spec *v1alpha1.SessionSpec, of *map[string]string) {
	asked, err := json.Marshal([]any{o.GetOwnerReferences(), o.GetFinalizers(), *of, spec.Groups, spec.Placement, spec.Resources})
	if err == nil && len(asked) <= largestSpec {
		return
	}
	o.SetOwnerReferences(nil)
	if controllerutil.ContainsFinalizer(o, v1alpha1.Finalizer) {
		o.SetFinalizers([]string{v1alpha1.Finalizer})
	} else {
		o.SetFinalizers(nil)
	}
	*of, spec.Groups, spec.Placement, spec.Resources = nil, nil, v1alpha1.SessionPlacement{}, nil
	leaveOut(o, len(asked))
}

// trimSecret leaves out data of a Secret that is too large to travel, and of an access
// secret what does not travel.
func trimSecret(secret *corev1.Secret) {
	if kind := secret.Labels[v1alpha1.LabelSecret]; sizeOfMeta(secret) > largestSpec {
		run := secret.Annotations[v1alpha1.AnnotationRun]
		secret.Labels, secret.Annotations, secret.OwnerReferences, secret.Finalizers = nil, nil, nil, nil
		metav1.SetMetaDataLabel(&secret.ObjectMeta, v1alpha1.LabelSecret, kind)
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, v1alpha1.AnnotationRun, truncate(run))
	}
	size := sizeOf(secret.Data)
	switch {
	case secret.Labels[v1alpha1.LabelSecret] == v1alpha1.SecretAccess && size > largestAccess:
		secret.Data, _ = accessData(secret)
	case size > largestSecret:
		secret.Data = nil
		leaveOut(secret, size)
	}
}

func sizeOfMeta(o client.Object) int {
	raw, _ := json.Marshal([]any{o.GetLabels(), o.GetAnnotations(), o.GetOwnerReferences(), o.GetFinalizers()}) // plain text
	return len(raw)
}

func leaveOut(o client.Object, size int) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationLeftOut] = strconv.Itoa(size)
	o.SetAnnotations(annotations)
}

// leftOut returns how large an object is of which the cache has left out what is too
// large; zero: nothing.
func leftOut(o metav1.Object) int {
	size, _ := strconv.Atoi(o.GetAnnotations()[annotationLeftOut])
	return size
}

func checkSize(s *v1alpha1.VDISession, _ *v1alpha1.TemplateSpec) (string, string) {
	size := leftOut(s)
	if size == 0 {
		return "", ""
	}
	return v1alpha1.ReasonSessionTooLarge, fmt.Sprintf(
		"its labels, ownerReferences, finalizers, groups, placement and resources have %d bytes together, at most %d: delete the session and create it with less", size, largestSpec)
}
