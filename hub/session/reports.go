package session

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// reportsOf returns the reports on a session of the connected members that have it
// according to its status, or that prove that they have it.
func (g gatherer) reportsOf(ctx context.Context, s *v1alpha1.VDISession) ([]*assignment.Report, error) {
	held := sets.New[string]()
	for _, o := range status.Outstanding(s) {
		held.Insert(o.ClusterName)
	}
	claims := g.memory.Claims(s.UID)
	var out []*assignment.Report
	for _, member := range sets.List(held.Union(claims)) {
		rep, connected, err := g.reportFrom(ctx, s, member)
		if err != nil {
			return nil, err
		}
		proves := rep != nil && lifecycle.ShowsRestore(s, rep)
		if rep != nil && (proves || held.Has(member)) {
			out = append(out, rep)
		}
		if connected && !proves && claims.Has(member) {
			g.memory.Unclaim(s.UID, member)
		}
	}
	return out, nil
}

// reportFrom returns a member's report, or nil if it does not count for the session.
func (g gatherer) reportFrom(ctx context.Context, s *v1alpha1.VDISession, member string) (rep *assignment.Report, connected bool, err error) {
	ref, known := g.Fleet.RefOf(member)
	if !known {
		return nil, false, nil
	}
	cl, err := g.Members.Get(ctx, multicluster.ClusterName(member))
	if errors.Is(err, multicluster.ErrClusterNotFound) {
		return nil, false, nil // the member is not connected
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading the reports of %s: %w", member, err)
	}
	reported, err := assignment.Reported(ctx, cl.GetClient(), assignment.KeyOf(s))
	if err != nil {
		return nil, false, err
	}
	out := &assignment.Report{Ref: ref, Proven: g.Orders.Proofs.Proves(s, ref.UID, reported)}
	own, reported := assignment.Attribute(s, ref.UID, reported, out.Proven)
	if own == nil {
		return nil, true, nil
	}
	out.Assignment = reported
	return out, true, nil
}

// Claimed enqueues a session because a member proves that it has the session.
func (r *Reconciler) Claimed(s *v1alpha1.VDISession, member string) {
	r.memory.Claim(s.UID, member)
	r.Enqueue(client.ObjectKeyFromObject(s))
}

// EnqueueSettled enqueues a session for which nothing is known to be left to do, at a limited rate.
func (r *Reconciler) EnqueueSettled(session types.NamespacedName) {
	r.settled.Add(reconcile.Request{NamespacedName: session})
}

// Enqueue enqueues a session that none of the controller's watches does.
func (r *Reconciler) Enqueue(session types.NamespacedName) { r.Scheduler.Enqueue(session) }
