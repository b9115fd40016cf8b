package assignment

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// secretsRetry is how often Secrets are retried that can't be stored as things are: no
// event announces that another owner's Secret of that name is gone.
const secretsRetry = 30 * time.Second

// retrySecrets tries again to store the Secrets of an assignment that is stored, as long
// as it exists. It returns when to try again, and 0 if it is done.
func (s *Store) retrySecrets(ctx context.Context, uid types.UID, a *v1alpha1.SessionAssignment) (time.Duration, error) {
	missing, err := s.secrets.retry(ctx, a)
	if err != nil {
		return 0, fmt.Errorf("storing the Secrets of %s/%s: %w", a.Namespace, a.Name, err)
	}
	if len(missing) > 0 {
		return secretsRetry, nil
	}
	log.FromContext(ctx).Info("The Secrets of a session are settled", "namespace", a.Namespace, "assignment", a.Name)
	s.update(uid, func(sl *slot) {
		if sl.withoutSecrets == a {
			sl.withoutSecrets = nil
		}
	})
	return 0, nil
}

// retry returns the Secrets that still can't be stored; none if the assignment that
// needs them is gone.
func (s secretWriter) retry(ctx context.Context, a *v1alpha1.SessionAssignment) (map[string]string, error) {
	object := &v1alpha1.SessionAssignment{}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(a), object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if object.Spec.Session.UID != a.Spec.Session.UID || object.Spec.Epoch != a.Spec.Epoch || object.DeletionTimestamp != nil {
		return nil, nil
	}
	return s.store(ctx, object, a.Payload)
}
