package session

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// failover reschedules a session whose member is lost, once its mode allows it and another
// member has capacity. The write of the new placement also records what was left behind, to
// be stopped there: until that is confirmed the session does not return there. Before that it
// stays, and shows what it waits for.
//
// A suspended session needs no capacity: its placement is released, and it is placed when it
// is resumed. One that has failed, or whose time is over, stays, unless an operator declares
// that the member is off.
func (r *Reconciler) failover(ctx context.Context, p *pass) (next, error) {
	s := p.session
	if err := r.supersede(ctx, p); err != nil {
		return done, err
	}
	at := s.Status.Placement
	if at == nil || !r.Fleet.Lost(failover.Session{Mode: v1alpha1.FailoverHold}, at.ClusterUID).Lost() {
		r.memory.Found(s.UID)
		return goOn, nil
	}
	if err := r.readPolicies(ctx, p); err != nil {
		return done, err
	}
	policy, found := policy.Governing(s, p.policies)
	ask := status.LossOf(s, p.spec, status.FailoverFor(s, p.spec, policy))
	why, v := status.StopReasonOf(s, p.spec, true, r.Clock.Now()), r.Fleet.Lost(ask, at.ClusterUID)
	if why != status.NotStopped {
		return r.leaveIdle(p, why, v)
	}
	r.memory.Lose(s.UID, r.Clock.Now())
	switch {
	case !v.Due:
		return r.awaitFailover(ctx, p, v, v.Message)
	case !found:
		_, message := checkPolicy(unplaced(s), p.policies)
		return r.awaitFailover(ctx, p, v, message)
	}
	return r.placeAnew(ctx, p, policy, ask)
}

// placeAnew reschedules the session in another member.
func (r *Reconciler) placeAnew(ctx context.Context, p *pass, policy *v1alpha1.PlacementPolicy, ask failover.Session) (next, error) {
	s, from := p.session, p.session.Status.Placement.ClusterUID
	switch message, err := r.leaveHome(ctx, p); {
	case err != nil:
		return done, err
	case message != "":
		return r.awaitFailover(ctx, p, failover.Verdict{}, message)
	}
	req := r.request(p, policy)
	req.Failover = true
	req.Refused[from] = "it is lost"
	if p.template != nil && r.Fleet.Evaluating(req.Template) {
		p.hold, p.again = true, judgePoll
		return done, nil
	}
	a, ok := r.ask(p, &scheduling.Request{
		Placement: req, Epoch: r.nextEpoch(s), Failover: &scheduling.Failover{Session: ask, From: from}, Reason: v1alpha1.ReasonFailoverPending,
	})
	switch d, v := a.Decision, a.Verdict; {
	case !ok:
		p.hold = true
		return done, nil
	case d.Placed:
		return goOn, r.failOver(ctx, p, req, d, v)
	case v.Due && v.Wait > 0 && status.FailoverPending(s):
		// Its delay is short, and its condition shows already that it waits.
		return r.awaitFailover(ctx, p, v, status.FailoverPendingMessage(s))
	case v.Due && v.Wait == 0:
		placements.WithLabelValues("unschedulable").Inc()
		return r.awaitFailover(ctx, p, v, fmt.Sprintf("%s, and no other takes the session now: %s", v.Message, d.Message))
	default:
		return r.awaitFailover(ctx, p, v, cmp.Or(d.Message, v.Message))
	}
}

// failOver writes a decision to reschedule a session into the status.
func (r *Reconciler) failOver(ctx context.Context, p *pass, req placement.Request, d placement.Decision, v failover.Verdict) error {
	if p.template != nil {
		if err := r.Revisions.Keep(ctx, p.template, p.revision); err != nil {
			return err
		}
	}
	s, now := p.session, r.Clock.Now()
	from, had := s.Status.Placement, s.Status.URL
	since := r.Fleet.LostSince(from.ClusterUID)
	if since.IsZero() || since.After(now) {
		since = now
	}
	policy, _ := policy.Governing(s, p.policies)
	mode := status.FailoverFor(s, p.spec, policy).Mode
	left := r.leaveBehind(p, since)
	p.reserved = &v1alpha1.Placement{
		ClusterName: d.Cluster.Name, ClusterUID: d.Cluster.UID, Region: d.Region, Policy: req.PolicyName,
		Epoch: r.nextEpoch(s), PlacementTime: status.Seconds(now), Run: 1, FailoverMode: mode,
	}
	r.scheduled(p, p.reserved, d)
	s.Status.LastFailover = &v1alpha1.FailoverRecord{
		From: from.ClusterName, FromRegion: from.Region, FromEpoch: from.Epoch, Reason: v.Reason, LostTime: status.Seconds(since), Time: status.Seconds(now),
	}
	if url, ok := r.urlOf(s, p.spec); ok && had != "" {
		s.Status.URL = url
	}
	p.record(r, "Warning", v1alpha1.EventFailedOver, "Failover", failoverNote(s, left, v, now.Sub(since)))
	p.failedOver = true
	p.events = append(p.events, func() {
		failovers.WithLabelValues(string(mode), v.Reason).Inc()
		r.observeFailover(s.UID, since, now)
	})
	return nil
}

// failoverNote describes for users where the session was rescheduled, why, and what it left
// where.
func failoverNote(s *v1alpha1.VDISession, left v1alpha1.Release, v failover.Verdict, away time.Duration) string {
	f, at := s.Status.LastFailover, s.Status.Placement
	var b strings.Builder
	fmt.Fprintf(&b, "from %s%s to %s%s: %s; it was away for %s", f.From, region(f.FromRegion), at.ClusterName, region(at.Region), v.Message, away.Round(time.Second))
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

// leaveIdle releases the placement of a session whose desktop is not to run, once its mode
// allows it.
func (r *Reconciler) leaveIdle(p *pass, why status.StopReason, v failover.Verdict) (next, error) {
	s := p.session
	off := v.Reason == v1alpha1.ReasonMemberFenced
	if !v.Due || why != status.StopSuspended && !off {
		p.again = backoff.Sooner(p.again, v.Wait)
		return goOn, nil
	}
	failed := status.FailedPermanently(s).DeepCopy()
	left := r.leaveBehind(p, r.Clock.Now())
	if failed != nil {
		// That its member is off does not make it retry.
		v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, *failed)
	}
	note := fmt.Sprintf("released in %s: %s; it is rescheduled once it is to run again", left.ClusterName, v.Message)
	if left.HomeClaimName != "" {
		note += fmt.Sprintf("; its home stays there, as claim %s", left.HomeClaimName)
	}
	p.record(r, "Warning", v1alpha1.EventFailedOver, "Failover", note)
	p.events = append(p.events, func() { r.memory.Found(s.UID) })
	return goOn, nil
}

// unplaced returns a copy of a session without its placement.
func unplaced(s *v1alpha1.VDISession) *v1alpha1.VDISession {
	out := s.DeepCopy()
	out.Status.Placement = nil
	return out
}

// urlOf returns the URL of a placed session.
func (r *Reconciler) urlOf(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, bool) {
	scheme, domain, ok := r.Fleet.IngressOf(s.Status.Placement.ClusterUID)
	return scheme + "://" + v1alpha1.AssignmentName(s.Name, s.UID) + "." + domain + t.Path, ok
}
