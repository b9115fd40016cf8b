package cluster

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// errReadOnly is returned for a write that the link has no order for.
var errReadOnly = errors.New("a member's client creates, updates and deletes SessionAssignments and nothing else")

// memberClient reads a member's cache, and writes to its outbox.
type memberClient struct {
	client.Reader
	scheme *runtime.Scheme
	cache  *Cache
	// send puts an order in the outbox of the member's connection.
	send func(protocol.Order) error
}

// Create orders an assignment. The member's result arrives through the cache; nil only
// means that the order is in the outbox.
func (c *memberClient) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	return c.assign(obj)
}

// Update orders an assignment as Create does: the newest order wins.
func (c *memberClient) Update(_ context.Context, obj client.Object, _ ...client.UpdateOption) error {
	return c.assign(obj)
}

// Delete orders the withdrawal of every epoch up to the object's. With a resource version as a
// precondition it drops a stopped or refused item that the cache has in that version, without
// an order. An end that arrives later is dropped by the caller that reads it.
func (c *memberClient) Delete(_ context.Context, obj client.Object, options ...client.DeleteOption) error {
	a, ok := obj.(*v1alpha1.SessionAssignment)
	if !ok {
		return fmt.Errorf("deleting %T: %w", obj, errReadOnly)
	}
	o := (&client.DeleteOptions{}).ApplyOptions(options)
	if o.Preconditions != nil && o.Preconditions.ResourceVersion != nil {
		c.cache.Forget(keyOf(a), *o.Preconditions.ResourceVersion)
		return nil
	}
	if !c.cache.ExpectStop(keyOf(a), a.Spec.Session.UID, a.Spec.Epoch) {
		return nil // confirmed already: the handlers were notified
	}
	return c.send(protocol.Order{Withdraw: &fleetv1.Withdrawal{
		SessionUid: string(a.Spec.Session.UID),
		Namespace:  a.Namespace,
		Name:       a.Name,
		UpToEpoch:  a.Spec.Epoch,
		Force:      a.Annotations[v1alpha1.AnnotationForceCleanup] != "",
	}})
}

func (c *memberClient) assign(obj client.Object) error {
	a, ok := obj.(*v1alpha1.SessionAssignment)
	if !ok {
		return fmt.Errorf("writing %T: %w", obj, errReadOnly)
	}
	return c.send(protocol.Order{Assign: a.DeepCopy()})
}

func (c *memberClient) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return errReadOnly
}

func (c *memberClient) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errReadOnly
}

// DeleteAllOf is not supported: the hub withdraws per item.
func (c *memberClient) DeleteAllOf(context.Context, client.Object, ...client.DeleteAllOfOption) error {
	return errReadOnly
}

// Status is not supported: the agent owns the status.
func (c *memberClient) Status() client.SubResourceWriter { return nil }

func (c *memberClient) SubResource(string) client.SubResourceClient { return nil }

// Scheme has the API of this project.
func (c *memberClient) Scheme() *runtime.Scheme { return c.scheme }

// RESTMapper knows SessionAssignments.
func (c *memberClient) RESTMapper() meta.RESTMapper { return mapper }

// GroupVersionKindFor returns the kind of an object.
func (c *memberClient) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(o, c.scheme)
}

// IsObjectNamespaced is true of all that a member has.
func (c *memberClient) IsObjectNamespaced(runtime.Object) (bool, error) { return true, nil }
