package lifecycle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// rescheduleLost reschedules a session whose member is lost, once its mode allows it and
// another member has capacity. The write of the new placement also records the copy that
// was left behind; until its stop is confirmed, the session is not placed there again.
// Until it is rescheduled, the session keeps its placement and shows what it waits for.
//
// A suspended session needs no capacity: its placement is released, and it is placed
// when it is resumed. A session that has failed, or whose time is over, keeps its
// placement unless an operator declares the member fenced.
func rescheduleLost(p *pass) next {
	s := p.Session
	supersede(p)
	at := s.Status.Placement
	if at == nil || !p.in.lost(at.ClusterUID) {
		p.Found = true
		return proceed
	}
	policy, found := p.in.Policies.Governing(s)
	loss := status.LossOf(s, p.spec, policy)
	why, v := status.StopReasonOf(s, p.spec, true, p.in.Now), p.in.lossOf(loss, at.ClusterUID)
	if why != status.NotStopped {
		return releaseIdle(p, why, v)
	}
	p.Lost = true
	switch {
	case !v.Due:
		return awaitFailover(p, v, v.Message)
	case !found:
		return awaitFailover(p, v, noPolicy(s))
	}
	return reschedule(p, policy, loss)
}

// reschedule requests another member than the lost one.
func reschedule(p *pass, policy *v1alpha1.PlacementPolicy, loss failover.Session) next {
	s, from := p.Session, p.Session.Status.Placement.ClusterUID
	if message := homeForFailover(p); message != "" {
		return awaitFailover(p, failover.Verdict{}, message)
	}
	req := p.request(policy)
	req.Failover = true
	req.Exclude(from, "it is lost")
	a, ok := p.decide(Request{Evaluate: p.template != nil, Request: scheduling.Request{
		Placement: req, Epoch: p.in.nextEpoch(s), Failover: &scheduling.Failover{Session: loss, From: from}, Reason: v1alpha1.ReasonFailoverPending,
	}})
	switch d, v, pending := a.Decision, a.Verdict, status.FailoverPending(s); {
	case !ok:
		p.Hold = true
		return done
	case d.Placed:
		failOver(p, policy, d, v)
		return proceed
	case v.Due && v.Wait > 0 && pending != nil:
		// The delay is short, and the condition already shows what the session waits for.
		return awaitFailover(p, v, pending.Message)
	case v.Due && v.Wait == 0:
		p.Result = ResultUnschedulable
		return awaitFailover(p, v, fmt.Sprintf("%s, and no other member accepts the session now: %s", v.Message, d.Message))
	default:
		return awaitFailover(p, v, cmp.Or(d.Message, v.Message))
	}
}

// failOver writes a decision to reschedule the session into its status.
func failOver(p *pass, policy *v1alpha1.PlacementPolicy, d placement.Decision, v failover.Verdict) {
	s, now := p.Session, p.in.Now
	from, had := s.Status.Placement, s.Status.Endpoint != nil || p.in.Console == "" && s.Status.URL != ""
	since := p.in.Members[from.ClusterUID].LastHeartbeat
	if since.IsZero() || since.After(now) {
		since = now
	}
	mode := status.FailoverFor(s, p.spec, policy).Mode
	left := supersedePlacement(s, since)
	p.Placed = p.placed(d, policy, p.in.nextEpoch(s), mode)
	s.Status.LastFailover = &v1alpha1.FailoverRecord{
		From: from.ClusterName, FromRegion: from.Region, FromEpoch: from.Epoch, Reason: v.Reason, LostTime: status.Seconds(since), Time: status.Seconds(now),
	}
	if url, ok := p.url(); ok && had {
		s.Status.Endpoint = &v1alpha1.SessionEndpoint{URL: url}
	}
	p.address()
	p.warn(v1alpha1.EventFailedOver, "Failover", failoverNote(s, left, v, now.Sub(since)))
	p.Result, p.LostSince = ResultFailedOver, since
}

// failoverNote describes where the session was rescheduled, why, and which home it left
// behind.
func failoverNote(s *v1alpha1.VDISession, left v1alpha1.Release, v failover.Verdict, away time.Duration) string {
	f, at := s.Status.LastFailover, s.Status.Placement
	var b strings.Builder
	fmt.Fprintf(&b, "from %s%s to %s%s: %s; it was down for %s", f.From, region(f.FromRegion), at.ClusterName, region(at.Region), v.Message, away.Round(time.Second))
	if s.Status.URL != "" {
		fmt.Fprintf(&b, "; it is now at %s", s.Status.URL)
	}
	if left.HomeClaimName != "" {
		fmt.Fprintf(&b, "; its home stays in %s, as claim %s, and it begins with an empty one", left.ClusterName, left.HomeClaimName)
	}
	return b.String()
}

func region(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

// releaseIdle releases the placement of a session whose desktop is not to run, once its mode
// allows it.
func releaseIdle(p *pass, why status.StopReason, v failover.Verdict) next {
	s := p.Session
	off := v.Reason == v1alpha1.ReasonMemberFenced
	if !v.Due || why != status.StopSuspended && !off {
		p.soon(v.Wait)
		return proceed
	}
	failed := status.FailedPermanently(s).DeepCopy()
	left := supersedePlacement(s, p.in.Now)
	if failed != nil {
		// An operator override does not retry it.
		v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, *failed)
	}
	note := fmt.Sprintf("released in %s: %s; it is rescheduled once it is to run again", left.ClusterName, v.Message)
	if left.HomeClaimName != "" {
		note += fmt.Sprintf("; its home stays there, as claim %s", left.HomeClaimName)
	}
	p.warn(v1alpha1.EventFailedOver, "Failover", note)
	p.Found = true
	return proceed
}

// awaitFailover shows what a session of a lost member waits for, and its last known
// state.
func awaitFailover(p *pass, v failover.Verdict, message string) next {
	s := p.Session
	waited := status.FailoverPending(s) != nil
	set, condition := status.SetUnknown, v1alpha1.ConditionAssigned
	if s.Status.Placement.Idle {
		// It has no capacity, and shows that like all sessions without capacity.
		set, condition = status.SetFalse, v1alpha1.ConditionScheduled
	}
	if set(s, condition, v1alpha1.ReasonFailoverPending, message) && !waited {
		p.warn(v1alpha1.EventFailoverPending, "Failover", message)
	}
	p.soon(v.Wait)
	overlay(p)
	return done
}
