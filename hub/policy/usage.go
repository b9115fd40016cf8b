package policy

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// usage is the number of sessions that a policy governs.
type usage struct {
	sessions, waiting int32
	// placed are those with a member. They belong to the cache: do not change them.
	placed []*v1alpha1.VDISession
}

// usageBy returns the usage of each policy by the sessions that are not being deleted.
func usageBy(policies []v1alpha1.PlacementPolicy, sessions iter.Seq[*v1alpha1.VDISession]) map[*v1alpha1.PlacementPolicy]*usage {
	out := make(map[*v1alpha1.PlacementPolicy]*usage, len(policies))
	for i := range policies {
		out[&policies[i]] = &usage{}
	}
	order := NewPrecedence(policies)
	for s := range sessions {
		policy, _ := order.Governing(s)
		if policy == nil || !s.DeletionTimestamp.IsZero() {
			continue
		}
		g := out[policy]
		g.sessions++
		switch {
		case s.Status.Placement != nil:
			g.placed = append(g.placed, s)
		case pending(s):
			g.waiting++
		}
	}
	return out
}

// pending reports whether an accepted session waits for a member.
func pending(s *v1alpha1.VDISession) bool {
	return s.Status.Placement == nil && s.Spec.OperatingMode != v1alpha1.ModeSuspended && s.DeletionTimestamp.IsZero() &&
		(s.Status.Phase == "" || s.Status.Phase == v1alpha1.PhasePending) &&
		!meta.IsStatusConditionFalse(s.Status.Conditions, v1alpha1.ConditionAccepted)
}

// wouldMove returns how many of a policy's placed sessions would be placed elsewhere now,
// and whether that is known. Sessions with a home stay.
func (r *Reconciler) wouldMove(ctx context.Context, policy *v1alpha1.PlacementPolicy, placed []*v1alpha1.VDISession) (int32, bool) {
	sampled := sample(placed, maxSampled)
	requests := make([]placement.Request, 0, len(sampled))
	for _, s := range sampled {
		if req, ok := r.request(ctx, s, policy); ok {
			requests = append(requests, req)
		}
	}
	n, ok := r.Placement.Misplaced(ctx, requests)
	if !ok || len(sampled) == 0 {
		return 0, ok
	}
	return int32((n*len(placed) + len(sampled)/2) / len(sampled)), true //nolint:gosec // no more than are placed
}

// request returns the request by which a session would be placed now, or false if it would
// stay: it has a home, or its template revision is unknown.
func (r *Reconciler) request(ctx context.Context, s *v1alpha1.VDISession, policy *v1alpha1.PlacementPolicy) (placement.Request, bool) {
	spec, err := r.Revisions.Spec(ctx, s.Spec.Template, s.Status.TemplateRevision)
	if err != nil || status.HasHome(spec) || s.Status.Home != nil {
		return placement.Request{}, false
	}
	req := placement.RequestFor(s, spec, s.Status.TemplateRevision, policy)
	req.Resources = placement.ResourcesOf(s.Status.Resources)
	req.Current = &placement.CurrentPlacement{Cluster: s.Status.Placement.ClusterUID, UsesCapacity: !s.Status.Placement.Idle}
	return req, true
}

// sample returns the sessions with the lowest UIDs, or all if there are fewer: the same
// ones each time, and a random choice, since UIDs are random.
func sample(sessions []*v1alpha1.VDISession, most int) []*v1alpha1.VDISession {
	if len(sessions) <= most {
		return sessions
	}
	byUID := slices.SortedFunc(slices.Values(sessions), func(a, b *v1alpha1.VDISession) int { return cmp.Compare(a.UID, b.UID) })
	return byUID[:most]
}
