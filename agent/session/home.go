package session

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

var homes = childKind[*corev1.PersistentVolumeClaim]{
	kind:     kindHome,
	empty:    func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} },
	stranger: strangerHome,
	align:    alignHome,
}

// growRetry is when a home that may not grow is tried again: its storage class
// would have to change, and the desktop runs meanwhile.
const growRetry = time.Hour

// home makes the claim that the Pod will mount, before the Pod: a Pod must
// never mount a claim before it is known to be its session's.
func (r *Reconciler) home(ctx context.Context, p *pass) error {
	want := render.Home(p.assignment)
	if want == nil {
		p.homeIsOurs = true
		return nil
	}
	have, err := find(ctx, r, p, homes, want.Name)
	if err != nil {
		return err
	}
	p.found.Home, p.found.HomeProblem, err = ensure(ctx, r, p, homes, have, want)
	p.homeIsOurs = err == nil && p.found.HomeProblem == nil
	if p.homeIsOurs {
		return r.grow(ctx, p, want)
	}
	return err
}

// grow makes a claim as large as the assignment asks, and never smaller. Where
// the API server will not have it, the home is used as it is.
func (r *Reconciler) grow(ctx context.Context, p *pass, want *corev1.PersistentVolumeClaim) error {
	have := p.found.Home
	if have == nil || have.DeletionTimestamp != nil || have.Status.Phase != corev1.ClaimBound || !larger(want, have) {
		delete(p.memory.refused, kindSize)
		return nil
	}
	if problem, wait := p.memory.refusedUntil(kindSize, p.assignment.Generation, p.now); problem != nil {
		p.found.HomeTooSmall = problem.Message
		p.again(wait)
		return nil
	}
	grown := have.DeepCopy()
	grown.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: requested(want)}
	writes.WithLabelValues(string(kindHome), "grow").Inc()
	began := r.Clock.Now()
	err := r.Client.Patch(ctx, grown, client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{}))
	r.traceApply(p, kindHome, "grow", began, err)
	switch {
	case err == nil:
		p.found.Home = grown
		log.FromContext(ctx).Info("Made a home larger", "claim", grown.Name, "from", size(have), "to", size(want))
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		p.again(soon)
		return nil
	case denied.Is(err):
		message := fmt.Sprintf("The claim %s has %s and can't be made %s large: %v", have.Name, size(have), size(want), err)
		p.found.HomeTooSmall = message
		rejections.WithLabelValues(string(kindHome), api.ReasonBoundTooSmall).Inc()
		p.memory.refused[kindSize] = refusal{
			problem:    observe.Problem{Reason: api.ReasonBoundTooSmall, Message: message},
			generation: p.assignment.Generation, retryAt: p.now.Add(growRetry),
		}
		return nil
	default:
		return fmt.Errorf("making the home larger: %w", err)
	}
}

func larger(want, have *corev1.PersistentVolumeClaim) bool {
	asked := requested(want)
	return asked.Cmp(requested(have)) > 0
}

func requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

func size(claim *corev1.PersistentVolumeClaim) string {
	asked := requested(claim)
	return asked.String()
}
