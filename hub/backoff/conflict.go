package backoff

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
)

// ConflictDelay is how long the cache gets to show the change that caused a conflict. The
// change itself usually enqueues the object earlier.
const ConflictDelay = 100 * time.Millisecond

// OnConflict turns an optimistic-lock conflict into a short requeue: conflicts are
// expected.
func OnConflict(result ctrl.Result, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: ConflictDelay}, nil
	}
	return result, err
}
