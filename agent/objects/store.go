package objects

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Store reads and writes the agent's own objects.
type Store struct {
	// Live must not be a cache.
	Live      client.Reader
	Client    client.Client
	Namespace string
}

// Read reads an object. If there is none, it leaves the object without a resource version.
func (s Store) Read(ctx context.Context, name string, object client.Object) error {
	return client.IgnoreNotFound(s.Live.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: name}, object))
}

// Write updates an object of a resource version, which must be the stored one, and creates
// one without, or one that was deleted. It sets the written object's resource version.
func (s Store) Write(ctx context.Context, name string, object client.Object) error {
	object.SetNamespace(s.Namespace)
	object.SetName(name)
	object.SetLabels(labels.Merge(object.GetLabels(), labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}))
	if object.GetResourceVersion() != "" {
		if err := s.Client.Update(ctx, object); !apierrors.IsNotFound(err) {
			return err
		}
		object.SetResourceVersion("")
	}
	return s.Client.Create(ctx, object)
}
