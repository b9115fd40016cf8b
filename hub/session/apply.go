package session

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// attempt is one attempt to execute a plan.
type attempt struct {
	// reserved is set if the scheduler has reserved capacity, and sent once the write of the
	// status has been tried.
	reserved, sent bool
}

// apply executes a plan.
func (r *Reconciler) apply(ctx context.Context, in *lifecycle.Input, plan *lifecycle.Plan, a *attempt) error {
	s := in.Session
	if plan.Err != nil {
		return plan.Err
	}
	if plan.Waits != "" {
		plan.Again = backoff.Sooner(plan.Again, r.Scheduler.Wait(client.ObjectKeyFromObject(s), s.UID, rankOf(plan.Session), plan.Waits))
	}
	if plan.Release {
		r.Reservations.Release(s.UID)
	}
	if plan.Found {
		r.memory.Found(s.UID)
	}
	if plan.Lost {
		r.memory.Lose(s.UID, in.Now)
	}
	if plan.FreeHome {
		if err := home.Release(ctx, r.Client, in.Home, s, status.Seconds(in.Now)); err != nil {
			return err
		}
	}
	r.recordDrain(s, plan)
	if plan.Result == lifecycle.ResultUnschedulable {
		placements.WithLabelValues(plan.Result).Inc()
	}
	switch {
	case plan.EndMove:
		if err := r.writer().endMove(ctx, s); err != nil {
			return client.IgnoreNotFound(err)
		}
		if plan.NotMoved != "" {
			r.Recorder.Eventf(s, nil, "Normal", v1alpha1.EventNotMoved, "Move", "%s", truncate(plan.NotMoved))
		}
		return nil
	case plan.Hold:
		return nil
	case plan.End:
		return r.finish(ctx, in, plan)
	}
	if !s.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(r.write(ctx, s, in, plan, a))
	}
	before, err := r.writer().keepFinalizer(ctx, s, plan.Session)
	if err != nil {
		return err
	}
	return r.write(ctx, before, in, plan, a)
}

// write patches the status if anything changed, with what precedes and follows it.
func (r *Reconciler) write(ctx context.Context, before *v1alpha1.VDISession, in *lifecycle.Input, plan *lifecycle.Plan, a *attempt) error {
	w := &plan.Write
	switch {
	case equality.Semantic.DeepEqual(before.Status, w.Session.Status):
		return nil
	case w.Settle > 0:
		plan.Again = backoff.Sooner(plan.Again, w.Settle)
		return nil
	}
	if w.Revision != "" {
		if err := r.Orders.Revisions.Keep(ctx, in.Template.Current, w.Revision); err != nil {
			return err
		}
	}
	if w.Home != nil {
		if err := home.Store(ctx, r.Client, in.Home, w.Home, status.Seconds(in.Now)); err != nil {
			return err
		}
	}
	a.sent = true
	if err := r.writer().status(ctx, before, w.Session); err != nil {
		return err
	}
	r.written(ctx, before, in, w)
	return nil
}

// written records what a write has made durable.
func (r *Reconciler) written(ctx context.Context, before *v1alpha1.VDISession, in *lifecycle.Input, w *lifecycle.Write) {
	s := w.Session
	t := traces{r.Orders.Trace}
	if w.Mirrored {
		t.mirrored(before, s, in.Now, r.Clock.Now())
	}
	if w.Placed != nil {
		t.placed(before, w, in.Now, r.Clock.Now())
		w.Epoch = w.Placed.Epoch
	}
	if w.Epoch > 0 {
		r.memory.Assigned(s.UID, w.Epoch)
	}
	switch at := s.Status.Placement; {
	case w.Reserve:
		r.Reservations.Reserve(s, at.Epoch, at.Run, at.ClusterUID)
	case w.Counted:
		r.Reservations.Ended(s.UID, at.Epoch, at.ClusterUID)
	}
	r.updateMemory(before, in, w)
	observe(before, in, w)
	for _, e := range w.Events {
		r.Recorder.Eventf(s, nil, e.Type, e.Reason, e.Action, "%s", truncate(e.Message))
	}
	for _, l := range w.Lines {
		log.FromContext(ctx).Info(l.Message, l.Values...)
	}
}

// updateMemory records in memory the refusals, moves and failovers that a write has made
// durable.
func (r *Reconciler) updateMemory(before *v1alpha1.VDISession, in *lifecycle.Input, w *lifecycle.Write) {
	from := before.Status.Placement
	if x := w.Refused; x != nil {
		r.memory.Refuse(before.UID, from.ClusterUID, from.Epoch, x.Status.Reason, x.Status.Message, status.MayAddNode(before), in.Now)
	}
	switch cause := memory.Cause(w.Moved); cause {
	case memory.NoNodeFits, memory.ScaleUpFailed, memory.ProvisioningTimeout:
		r.memory.Moved(before.UID, from, cause, in.Now)
	case lifecycle.MovedByDrain, lifecycle.MovedByRebalance:
		r.memory.Avoid(before.UID, from.ClusterUID, in.Now)
	}
	if !w.LostSince.IsZero() {
		observeFailover(w, r.memory.Found(before.UID), in.Now, r.Clock.Now())
	}
}

// truncate limits a note to what events.k8s.io/v1 allows.
func truncate(s string) string {
	const most = 1000
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
