package assignment

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// sweepRetry is how soon deletions are retried that an API server did not answer.
const sweepRetry = 5 * time.Second

// sweep deletes the Secrets that assignments no longer name and that an earlier process
// did not delete: it may have ended after the write of an assignment, and the hub, whose
// order is stored, sends nothing more.
func (s secretWriter) sweep(ctx context.Context) {
	logged := false
	_ = wait.PollUntilContextCancel(ctx, sweepRetry, true, func(ctx context.Context) (done bool, err error) {
		failed := s.sweepOnce(ctx)
		if failed != nil && !logged && ctx.Err() == nil {
			logged = true
			log.FromContext(ctx).Error(failed, "Secrets that no session names any more are left, will retry")
		}
		return failed == nil, nil
	})
}

// sweepOnce continues after a failure, and returns the first error.
func (s secretWriter) sweepOnce(ctx context.Context) (first error) {
	var all v1alpha1.SessionAssignmentList
	if err := s.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	for i := range all.Items {
		if a := &all.Items[i]; a.DeletionTimestamp.IsZero() {
			if err := s.sweepOf(ctx, a); err != nil && first == nil {
				first = err
			}
		}
	}
	return first
}

// sweepOf reads the assignment from the API server after its Secrets: an order that is
// carried out meanwhile writes the assignment before the Secrets that it names.
func (s secretWriter) sweepOf(ctx context.Context, a *v1alpha1.SessionAssignment) error {
	unnamed, err := s.unnamed(ctx, a)
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
		if err := s.delete(ctx, secret); err != nil {
			return err
		}
	}
	return nil
}
