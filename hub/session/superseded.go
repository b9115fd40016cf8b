package session

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// A release is superseded if the session was rescheduled, or may be, without waiting for
// the stop: its member is lost, and the session's mode allows it. It only delays the
// session's end, and a placement in that member.
//
// It names no policy: caps of policies count a session once, where it is placed. Its member
// counts it until it has confirmed the stop, for its capacity is in use.

// leaveBehind releases a session's placement in a lost member, without waiting for its
// stop. since is when its desktop is taken to have stopped there.
func (r *Reconciler) leaveBehind(p *pass, since time.Time) v1alpha1.Release {
	s, held := p.session, p.session.Status.Placement
	left := v1alpha1.Release{ClusterName: held.ClusterName, ClusterUID: held.ClusterUID, Epoch: held.Epoch, Superseded: true}
	if h := s.Status.Home; h != nil && h.ClusterUID == held.ClusterUID {
		left.HomeClaimName = h.ClaimName
		if h.Name == "" {
			s.Status.Home = nil // its own; a user's home has a record with its member
		}
	}
	status.EndRun(s, since)
	s.Status.Releasing = append(status.ReleasesElsewhere(s.Status.Releasing, left), left)
	s.Status.Placement, s.Status.URL, s.Status.IdleSince = nil, "", nil
	s.Status.Conditions = status.DropAgentConditions(s.Status.Conditions)
	meta.RemoveStatusCondition(&s.Status.Conditions, v1alpha1.ConditionAssigned)
	v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
		Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonReleasing,
		Message: left.ClusterName + " is lost: it is rescheduled",
	})
	return left
}

// supersede stops waiting for stops that lost members can't confirm, by the session's mode
// as for placements there. In a member that was removed permanently no agent will confirm
// what is left.
func (r *Reconciler) supersede(ctx context.Context, p *pass) error {
	s := p.session
	r.forgetGone(s)
	for i := range s.Status.Releasing {
		o := &s.Status.Releasing[i]
		if o.Superseded || !r.Fleet.Lost(failover.Session{Mode: v1alpha1.FailoverHold}, o.ClusterUID).Lost() || p.spec == nil {
			continue
		}
		if err := r.readPolicies(ctx, p); err != nil {
			return err
		}
		policy, _ := policy.Governing(s, p.policies)
		ask := status.LossOf(s, p.spec, status.FailoverFor(s, p.spec, policy))
		ask.Mode, ask.Guarded = status.ReleasedMode(s, p.spec, policy, o), false // whether a guard runs there is unknown
		v := r.Fleet.Lost(ask, o.ClusterUID)
		p.again = backoff.Sooner(p.again, v.Wait)
		if p.stays = v.Message; v.Due {
			o.Superseded, o.Policy, p.stays = true, "", ""
		}
	}
	return nil
}

// forgetGone removes what was left behind in members that no longer exist.
func (r *Reconciler) forgetGone(s *v1alpha1.VDISession) {
	if len(s.Status.Releasing) == 0 {
		return
	}
	s.Status.Releasing = slices.DeleteFunc(s.Status.Releasing, func(o v1alpha1.Release) bool { return r.Fleet.Gone(o.ClusterUID) })
	if len(s.Status.Releasing) == 0 {
		s.Status.Releasing = nil
	}
}

// avoid excludes the members in which a copy may still run from a request.
func avoid(req *placement.Request, s *v1alpha1.VDISession) {
	for _, o := range s.Status.Releasing {
		req.Refused[o.ClusterUID] = fmt.Sprintf("it has not confirmed yet that the session's copy of epoch %d is stopped there", o.Epoch)
	}
}
