package identity

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

// attempts at a write that others get in the way of. The status of a member has
// another writer, which writes at most every 2 s.
const attempts = 8

// nameOf the member of that UID, by the hub's cache: neither ever changes.
func (a *Authority) nameOf(ctx context.Context, uid types.UID) (string, error) {
	list := &v1alpha1.MemberClusterList{}
	if err := a.options.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("looking for the member: %w", err)
	}
	for i := range list.Items {
		if list.Items[i].UID == uid {
			return list.Items[i].Name, nil
		}
	}
	return "", link.ErrUnknownMember
}

// member reads a member as it stands: link.ErrUnknownMember if it is gone, or is
// another of the same name.
func (a *Authority) member(ctx context.Context, name string, uid types.UID) (*v1alpha1.MemberCluster, error) {
	mc := &v1alpha1.MemberCluster{}
	err := a.options.Live.Get(ctx, client.ObjectKey{Name: name}, mc)
	switch {
	case apierrors.IsNotFound(err):
		return nil, link.ErrUnknownMember
	case err != nil:
		return nil, fmt.Errorf("reading the member: %w", err)
	case mc.UID != uid:
		return nil, link.ErrUnknownMember
	}
	return mc, nil
}

// change makes a change of a member's status durable. decide looks at the member
// as it stands and changes it, or says why not; it is asked again whenever
// somebody else wrote the member meanwhile.
func (a *Authority) change(ctx context.Context, name string, uid types.UID, decide func(*v1alpha1.MemberCluster) error) error {
	var err error
	for range attempts {
		var mc *v1alpha1.MemberCluster
		if mc, err = a.member(ctx, name, uid); err != nil {
			return err
		}
		before := mc.DeepCopy()
		if err = decide(mc); err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(before.Status, mc.Status) {
			return nil
		}
		if err = a.options.Client.Status().Patch(ctx, mc, locked(before)); err == nil {
			a.options.Changed(mc)
			return nil
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return fmt.Errorf("writing the member's certificate: %w", err)
}
