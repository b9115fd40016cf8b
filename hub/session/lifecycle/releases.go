package lifecycle

import (
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// A release is superseded if the session was rescheduled, or may be, without waiting for
// the stop: its member is lost, and the session's mode allows it. It only delays the
// session's end, and a placement in that member. It names no policy, whose caps count a
// session only where it is placed.

// supersedePlacement releases a session's placement in a lost member, without waiting for
// its stop. since is when its desktop counts as stopped there.
func supersedePlacement(s *v1alpha1.VDISession, since time.Time) v1alpha1.Release {
	left := status.Supersede(s)
	if h := s.Status.Home; h != nil && h.ClusterUID == left.ClusterUID {
		left.HomeClaimName = h.ClaimName
		if h.Name == "" {
			s.Status.Home = nil // its own; a user's home has a record with its member
		}
	}
	status.EndRun(s, since)
	unplace(s, left.ClusterName+" is lost: it is rescheduled")
	return *left
}

// releasePlacement releases the session's placement. It is rescheduled once the member has
// confirmed that nothing of it runs.
func releasePlacement(s *v1alpha1.VDISession) {
	held := s.Status.Placement
	status.SetRelease(s, v1alpha1.Release{
		ClusterName: held.ClusterName, ClusterUID: held.ClusterUID, Policy: held.Policy, Epoch: held.Epoch, FailoverMode: held.FailoverMode,
	})
	unplace(s, status.ReleasingMessage(s, ""))
}

// unplace removes the placement from the status, which has a release of it already. why
// is what the session waits for.
func unplace(s *v1alpha1.VDISession, why string) {
	s.Status.Placement, s.Status.Endpoint, s.Status.IdleSince = nil, nil, nil
	s.Status.Conditions = status.DropAgentConditions(s.Status.Conditions)
	v1alpha1.RemoveCondition(&s.Status.Conditions, v1alpha1.ConditionAssigned)
	status.SetFalse(s, v1alpha1.ConditionScheduled, v1alpha1.ReasonReleasing, why)
}

// supersede ends the wait for stops that lost members can't confirm, as the session's
// mode allows for placements there. No agent confirms them in a removed member.
func supersede(p *pass) {
	s := p.Session
	removeGone(p)
	for i := range s.Status.Releasing {
		o := &s.Status.Releasing[i]
		if o.Superseded || !p.in.lost(o.ClusterUID) || p.spec == nil {
			continue
		}
		policy, _ := p.in.Policies.Governing(s)
		loss := status.LossOf(s, p.spec, policy)
		loss.Mode, loss.Guarded = status.ReleasedMode(s, p.spec, policy, o), false // whether a guard runs there is unknown
		v := p.in.lossOf(loss, o.ClusterUID)
		p.soon(v.Wait)
		if p.awaitedStop = v.Message; v.Due {
			o.Superseded, o.Policy, p.awaitedStop = true, "", ""
		}
	}
}

// removeGone removes what was left behind in members that no longer exist.
func removeGone(p *pass) {
	s := p.Session
	s.Status.Releasing = slices.DeleteFunc(s.Status.Releasing, func(o v1alpha1.Release) bool { return p.in.gone(o.ClusterUID) })
}
