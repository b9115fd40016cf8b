package identity

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/proto/conflict"
)

// attempts is how often a write is retried on conflict. Another writer of a member's
// status writes at most every 2 s.
const attempts = 8

// members reads and writes the certificates in the status of MemberClusters.
type members struct{ options *Options }

// get reads a member from the API server, or returns link.ErrUnknownMember.
func (m members) get(ctx context.Context, name string, uid types.UID) (*v1alpha1.MemberCluster, error) {
	mc := &v1alpha1.MemberCluster{}
	err := m.options.Live.Get(ctx, client.ObjectKey{Name: name}, mc)
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

// change writes a change of a member's status. decide changes the member, or returns an
// error; it is called again after each conflict.
func (m members) change(ctx context.Context, name string, uid types.UID, decide func(*v1alpha1.MemberCluster) error) error {
	return conflict.Retry(wait.Backoff{Steps: attempts}, func() error {
		mc, err := m.get(ctx, name, uid)
		if err != nil {
			return err
		}
		before := mc.DeepCopy()
		if err := decide(mc); err != nil {
			return err
		}
		if equality.Semantic.DeepEqual(before.Status, mc.Status) {
			return nil
		}
		if err := m.options.Client.Status().Update(ctx, mc); err != nil {
			return fmt.Errorf("writing the member's certificate: %w", err)
		}
		m.options.Changed(mc)
		return nil
	})
}

// isCurrent reports whether the hub's cache shows the caller's certificate as the one that its member
// uses, so that there is nothing to record: a thousand agents that connect at once would otherwise
// be read from the API server.
func (m members) isCurrent(ctx context.Context, caller link.Caller) bool {
	name, _ := m.options.Name(caller.Member)
	mc := &v1alpha1.MemberCluster{}
	if err := m.options.Client.Get(ctx, client.ObjectKey{Name: name}, mc, client.UnsafeDisableDeepCopy); err != nil || mc.UID != caller.Member {
		return false
	}
	c := mc.Status.Certificate
	return mc.Spec.Access != v1alpha1.AccessRevoked && c != nil && c.Serial == caller.Serial && m.options.Now().Before(caller.NotAfter)
}

// changeOf changes the member of a caller with a valid certificate. A member that is being
// removed keeps its agent until its sessions have stopped.
func (m members) changeOf(ctx context.Context, caller link.Caller, change func(*v1alpha1.MemberCluster) error) error {
	name, known := m.options.Name(caller.Member)
	if !known {
		return link.ErrUnknownMember
	}
	return m.change(ctx, name, caller.Member, func(mc *v1alpha1.MemberCluster) error {
		switch c := mc.Status.Certificate; {
		case mc.Spec.Access == v1alpha1.AccessRevoked:
			return refuse(refusedRevoked, link.ErrRevoked, "%s", mc.Name)
		case !m.options.Now().Before(caller.NotAfter):
			return refuse(refusedCertificate, link.ErrCertificate, "it has expired")
		case c == nil || !slices.Contains(c.Serials(), caller.Serial):
			return refuse(refusedCertificate, link.ErrCertificate, "%s may not use it (serial %s)", mc.Name, caller.Serial)
		}
		return change(mc)
	})
}
