package secret

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
)

// maxAccessSize is how many bytes the cache keeps of an access secret's data before it
// leaves out all keys but those that are sent.
const maxAccessSize = 4 << 10

// Cached selects the Secrets in the hub's cache: access secrets in the namespaces of
// sessions, and Secrets to distribute and the console's keys in the hub's own.
func Cached(own string, served []string) cache.ByObject {
	access := cache.Config{LabelSelector: hasLabel(v1alpha1.SecretAccess)}
	namespaces := map[string]cache.Config{}
	for _, namespace := range served {
		namespaces[namespace] = access
	}
	if len(served) == 0 {
		namespaces[cache.AllNamespaces] = access
	}
	here := cache.Config{LabelSelector: hasLabel(v1alpha1.SecretDistribute, v1alpha1.SecretConsoleKeys)}
	if len(served) == 0 || slices.Contains(served, own) {
		here.LabelSelector = hasLabel(v1alpha1.SecretAccess, v1alpha1.SecretDistribute, v1alpha1.SecretConsoleKeys)
	}
	namespaces[own] = here
	return cache.ByObject{Namespaces: namespaces, Transform: trim.Transform(trimCached)}
}

func hasLabel(values ...string) labels.Selector {
	in, err := labels.NewRequirement(v1alpha1.LabelSecret, selection.In, values)
	if err != nil {
		panic(err) // the label is none: a mistake in the program
	}
	return labels.NewSelector().Add(*in)
}

// trimCached removes the data of a Secret that is too large to be sent, of an access secret
// what is not sent, and of the console's keys all but the public ones.
func trimCached(secret *corev1.Secret) {
	if kind := secret.Labels[v1alpha1.LabelSecret]; trim.MetadataSize(secret) > trim.MaxSize {
		run := secret.Annotations[v1alpha1.AnnotationRun]
		secret.Labels, secret.Annotations, secret.OwnerReferences, secret.Finalizers = nil, nil, nil, nil
		metav1.SetMetaDataLabel(&secret.ObjectMeta, v1alpha1.LabelSecret, kind)
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, v1alpha1.AnnotationRun, run[:min(len(run), 64)])
	}
	size := sizeOf(secret.Data)
	switch access := secret.Labels[v1alpha1.LabelSecret] == v1alpha1.SecretAccess; {
	case access && size > maxAccessSize:
		secret.Data, _ = accessData(secret)
	case access:
		secret.Data = trim.Data(secret.Data)
	case secret.Labels[v1alpha1.LabelSecret] == v1alpha1.SecretConsoleKeys:
		secret.Data = map[string][]byte{v1alpha1.ConsolePublicKeys: secret.Data[v1alpha1.ConsolePublicKeys]}
	case size > maxSize:
		secret.Data = nil
		trim.Omit(secret, size)
	}
	trim.Metadata(secret)
	trim.Strings((*string)(&secret.Type))
}
