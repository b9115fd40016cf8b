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

// secretsAgain is how often Secrets are tried again that can't be stored as
// things are: no event tells that somebody else's Secret of that name is gone.
const secretsAgain = 30 * time.Second

// settleLate tries again to store the Secrets of an assignment that is stored,
// as long as it is there.
func (s *Store) settleLate(ctx context.Context, uid types.UID, a *v1alpha1.SessionAssignment) error {
	missing, err := s.storeLate(ctx, a)
	if err != nil {
		return fmt.Errorf("storing the Secrets of %s/%s: %w", a.Namespace, a.Name, err)
	}
	if len(missing) > 0 {
		s.queue.AddAfter(uid, secretsAgain)
		return nil
	}
	log.FromContext(ctx).Info("The Secrets of a session are settled", "namespace", a.Namespace, "assignment", a.Name)
	s.clear(uid, func(sl *slot) {
		if sl.late == a {
			sl.late = nil
		}
	})
	return nil
}

// storeLate returns the Secrets that still can't be stored; none if the
// assignment is not there any more to want them.
func (s *Store) storeLate(ctx context.Context, a *v1alpha1.SessionAssignment) (map[string]string, error) {
	object := &v1alpha1.SessionAssignment{}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(a), object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if object.Spec.Session.UID != a.Spec.Session.UID || object.Spec.Epoch != a.Spec.Epoch || object.DeletionTimestamp != nil {
		return nil, nil
	}
	return s.storeSecrets(ctx, object, a.Payload)
}
