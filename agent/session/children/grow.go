package children

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// growRetry is the delay before a denied growth is retried: the storage class would have to
// change, and the desktop runs meanwhile.
const growRetry = time.Hour

// Grow raises the size of a claim to the rendered one. It returns the claim, and why it is
// too small if the API server denies the growth: such a home is used as it is.
func (s *Set) Grow(ctx context.Context, have, want *corev1.PersistentVolumeClaim) (*corev1.PersistentVolumeClaim, string, error) {
	memory := s.Memory.of(nameSize)
	if have == nil || have.DeletionTimestamp != nil || have.Status.Phase != corev1.ClaimBound ||
		want.Spec.Resources.Requests.Storage().Cmp(*have.Spec.Resources.Requests.Storage()) <= 0 {
		memory.refused = refusal{}
		return have, "", nil
	}
	if problem, wait := memory.refusedUntil(s.Assignment.Generation, s.Now); problem != nil {
		s.RequeueWithin(wait)
		return have, problem.Message, nil
	}
	before, size := have.Spec.Resources.Requests.Storage(), want.Spec.Resources.Requests.Storage()
	grown := have.DeepCopy()
	grown.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *size}
	err := s.patch(ctx, nameHome, "grow", have, grown)
	switch {
	case err == nil:
		log.FromContext(ctx).Info("Grew a home", "claim", grown.Name, "from", before.String(), "to", size.String())
		return grown, "", nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		s.RequeueWithin(ConflictRetry)
		return have, "", nil
	case denied.Is(err):
		message := fmt.Sprintf("The claim %s has %s and can't grow to %s: %v", have.Name, before, size, err)
		rejections.WithLabelValues(nameHome, api.ReasonBoundTooSmall).Inc()
		memory.refused = refusal{
			problem:    observe.Problem{Reason: api.ReasonBoundTooSmall, Message: message},
			generation: s.Assignment.Generation, times: 1, retryAt: s.Now.Add(growRetry),
		}
		return have, message, nil
	default:
		return have, "", fmt.Errorf("growing the home: %w", err)
	}
}
