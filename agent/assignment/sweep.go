package assignment

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// sweepAgain is how soon it is tried again what an API server that does not answer has
// kept from being removed.
const sweepAgain = 5 * time.Second

// sweep removes the Secrets that assignments no longer name and that an earlier process
// has left: it may have ended between the write of an assignment and their removal, and
// the hub, whose order is stored, sends nothing more.
func (s *Store) sweep(ctx context.Context) {
	logged := false
	_ = wait.PollUntilContextCancel(ctx, sweepAgain, true, func(ctx context.Context) (done bool, err error) {
		failed := s.sweepOnce(ctx)
		if failed != nil && !logged && ctx.Err() == nil {
			logged = true
			log.FromContext(ctx).Error(failed, "Secrets that no session names any more are left, will retry")
		}
		return failed == nil, nil
	})
}

// sweepOnce goes on where one can't be dealt with, and returns the first error.
func (s *Store) sweepOnce(ctx context.Context) (first error) {
	var all v1alpha1.SessionAssignmentList
	if err := s.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range all.Items {
		if a := &all.Items[i]; a.DeletionTimestamp.IsZero() {
			if err := s.sweepSecrets(ctx, a); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// sweepSecrets makes sure of the assignment once it has seen its Secrets: an order that
// is carried out meanwhile writes the assignment before the Secrets that it names.
func (s *Store) sweepSecrets(ctx context.Context, a *v1alpha1.SessionAssignment) error {
	unnamed, err := s.unnamedSecrets(ctx, a)
	if err != nil || len(unnamed) == 0 {
		return err
	}
	now := &v1alpha1.SessionAssignment{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(a), now); err != nil || now.UID != a.UID {
		return client.IgnoreNotFound(err)
	}
	named := namedSecrets(now)
	for _, secret := range unnamed {
		if _, keep := named[secret.Name]; keep {
			continue
		}
		if err := s.deleteSecret(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}
