package session

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// report writes the status, if it changed and has waited long enough.
func (r *Reconciler) report(ctx context.Context, p *pass, want api.SessionAssignmentStatus) error {
	have, m := p.assignment.Status, &p.memory.status
	if equality.Semantic.DeepEqual(have, want) {
		m.differsSince = time.Time{}
		return nil
	}
	if m.basedOn == p.assignment.ResourceVersion {
		// The cache has yet to show the last write: to compare with it would
		// be to write twice. Its event brings the next pass.
		p.RequeueWithin(children.CacheDelay)
		return nil
	}
	if m.differsSince.IsZero() {
		m.differsSince = p.now
	}
	if wait := holdBack(p.assignment.Spec.RunState, have, want, *m, r.Options, p.now); wait > 0 {
		p.RequeueWithin(wait)
		return nil
	}
	return r.writeStatus(ctx, p, want)
}

func (r *Reconciler) writeStatus(ctx context.Context, p *pass, want api.SessionAssignmentStatus) error {
	before := p.assignment.DeepCopy()
	p.assignment.Status = want
	children.CountWrite(kindAssignment, "status")
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.Client.Status().Patch(ctx, p.assignment, patch)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		p.RequeueWithin(children.ConflictRetry)
		return nil
	case err != nil:
		return fmt.Errorf("writing the status: %w", err)
	}
	p.memory.status = statusMemory{writtenAt: p.now}
	if p.assignment.ResourceVersion != before.ResourceVersion {
		p.memory.status.basedOn = before.ResourceVersion
	}
	r.wroteStatus(ctx, p, before.Status, want)
	r.announce(p.assignment, before.Status, want)
	return nil
}
