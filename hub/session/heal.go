package session

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/hub/template"
)

// failsBack reports whether a Restart session returns to the copy that it left behind in
// a member: that runs still, its healing is KeepOriginal, and nobody has done anything
// with the replacement but work in it. That is once for each failover. Otherwise, and by
// default, the copy is stopped.
func failsBack(ctx context.Context, c client.Reader, revisions *template.Revisions, s *v1alpha1.VDISession, ref v1alpha1.ClusterRef, state health.State, reported *v1alpha1.SessionAssignment) (bool, error) {
	if s == nil || !status.MayFailBack(s, ref, reported) || state == health.Unreachable {
		return false, nil
	}
	spec, err := revisions.Spec(ctx, s.Spec.Template, s.Status.TemplateRevision)
	if err != nil {
		return false, fmt.Errorf("reading template revision: %w", err)
	}
	policies := &v1alpha1.PlacementPolicyList{}
	if err := c.List(ctx, policies); err != nil {
		return false, fmt.Errorf("listing placement policies: %w", err)
	}
	governing, _ := policy.Governing(s, policies.Items)
	healing := status.FailoverFor(s, spec, governing).Healing
	return healing == v1alpha1.HealKeepOriginal && status.FailoverMode(s, spec) == v1alpha1.FailoverRestart, nil
}

// failBack returns a session to the copy that a failover left behind: the copy's member
// gets the session's next epoch, under which an agent keeps the Pod that it has, and the
// replacement is left behind in its turn.
func (r *Reconciler) failBack(ctx context.Context, p *pass) (next, error) {
	s := p.session
	for i := range p.reports {
		rep := &p.reports[i]
		yes, err := failsBack(ctx, r.Client, r.Revisions, s, rep.ref, r.Fleet.HealthOf(rep.ref.UID), rep.assignment)
		if err != nil {
			return done, err
		}
		if !yes {
			continue
		}
		if _, err := r.resolve(ctx, p); err != nil {
			return done, err
		}
		now, replacement := r.Clock.Now(), s.Status.Placement
		status.EndRun(s, now)
		status.FailBack(s, rep.ref, r.nextEpoch(s), status.Seconds(now))
		if url, ok := r.urlOf(s, p.spec); ok {
			s.Status.URL = url
		}
		p.events = append(p.events, func() {
			r.given.add(s.UID, s.Status.Epoch)
			r.reserve(s)
		})
		p.record(r, "Normal", v1alpha1.EventHealed, "Heal", fmt.Sprintf(
			"its first copy runs still in %s, and is kept, as its healing says; the replacement in %s is stopped", rep.ref.Name, replacement.ClusterName))
		return done, nil
	}
	return goOn, nil
}
