package session

import (
	"context"
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// resume runs a stopped desktop again once nothing prevents that: where it is, under its
// current epoch, or elsewhere if there is no capacity and no home keeps it. Capacity is
// reserved first. A session whose home is there waits, and so does one whose member can
// confirm nothing now.
func (r *Reconciler) resume(ctx context.Context, p *pass) (next, error) {
	s := p.session
	held := s.Status.Placement
	switch {
	case !held.Idle:
		r.startAnew(p)
		return goOn, nil
	case status.StopReasonOf(s, p.spec, false, r.Clock.Now()) != status.NotStopped:
		r.remain(p)
		return goOn, nil
	}
	if n, err := r.acquireHome(ctx, p); err != nil || n == done {
		r.Fleet.Release(s.UID)
		return n, err
	}
	policy, err := r.placedBy(ctx, p)
	if err != nil {
		r.Fleet.Release(s.UID)
		return done, err
	}
	req := r.request(p, policy)
	if p.template != nil && r.Fleet.Evaluating(req.Template) {
		p.hold, p.again = true, judgePoll
		return done, nil
	}
	again := *held
	again.Idle, again.Run = false, max(1, held.Run)+1
	answer, ok := r.ask(p, r.resumption(p, req, &again))
	switch {
	case !ok:
		p.hold = true
		return done, nil
	case !answer.Placed:
		r.notResumed(p, answer)
		return done, nil
	}
	p.reserved = &again
	if p.template != nil {
		if err := r.Revisions.Keep(ctx, p.template, p.revision); err != nil {
			return done, err
		}
	}
	r.resumed(p, answer.Decision)
	return goOn, nil
}

// resumption returns the request to run a session again where it is, or, unless its home is
// there, in another member, by the current policies.
func (r *Reconciler) resumption(p *pass, here placement.Request, again *v1alpha1.Placement) *scheduling.Request {
	s := p.session
	in := &scheduling.Resume{Placement: inPlace(here), Member: refOf(again), Epoch: again.Epoch, Run: again.Run}
	policy, governed := policy.Governing(s, p.policies)
	in.Stays = !governed || status.HasHome(p.spec) || s.Status.Home != nil
	req := &scheduling.Request{Placement: here, Resume: in, Reason: v1alpha1.ReasonNoRoomToResume}
	if !in.Stays {
		req.Placement, req.Epoch = r.request(p, policy), r.nextEpoch(s)
	}
	return req
}

// notResumed shows why a session stays stopped though it should run, or moves it to another
// member with capacity for it: its placement is released, and it is placed there once its
// end is confirmed. Until then the capacity is kept.
func (r *Reconciler) notResumed(p *pass, a scheduling.Answer) {
	s, message := p.session, "no capacity to resume it: "+a.Message
	switch {
	case a.Reason == v1alpha1.ReasonHubRestored:
		r.unscheduled(p, a.Reason, a.Message)
		return
	case a.Other != nil && a.Other.Placed:
		r.giveUpPlace(p)
		p.record(r, "Normal", v1alpha1.EventMoved, "Resume", fmt.Sprintf("%s: it goes to %s", message, a.Other.Cluster.Name))
		p.events = append(p.events, moved.WithLabelValues(v1alpha1.ReasonNoRoomToResume).Inc)
		return
	case a.Other != nil:
		message = "no capacity to resume it: " + a.Other.Message
	case status.HasHome(p.spec) || s.Status.Home != nil:
		message += "; its home is there"
	}
	placements.WithLabelValues("unschedulable").Inc()
	r.unscheduled(p, v1alpha1.ReasonNoRoomToResume, explained(a, message))
}

// placedBy returns the policy by which a session was placed; if that is gone, the one that
// governs it now; nil: none does.
func (r *Reconciler) placedBy(ctx context.Context, p *pass) (*v1alpha1.PlacementPolicy, error) {
	if err := r.readPolicies(ctx, p); err != nil {
		return nil, err
	}
	for i := range p.policies {
		if p.policies[i].Name == p.session.Status.Placement.Policy {
			return &p.policies[i], nil
		}
	}
	policy, _ := policy.Governing(p.session, p.policies)
	return policy, nil
}

// inPlace reduces a request to its capacity: the member was checked when the session was
// placed, and the policy's caps count the session already.
func inPlace(req placement.Request) placement.Request {
	req.TemplateClusterSelector, req.ClusterSelector = nil, nil
	req.RequiredRegions, req.PreferredRegions, req.Refused, req.Home = nil, nil, nil, nil
	if req.Policy != nil {
		req.Policy = &v1alpha1.PlacementPolicySpec{
			ClusterTolerations: req.Policy.ClusterTolerations, HeadroomPercent: req.Policy.HeadroomPercent,
		}
	}
	return req
}

func refOf(p *v1alpha1.Placement) v1alpha1.ClusterRef {
	return v1alpha1.ClusterRef{Name: p.ClusterName, UID: p.ClusterUID}
}

// resumed writes a decision to run again into the status. A session that had failed now
// runs the current template.
func (r *Reconciler) resumed(p *pass, d placement.Decision) {
	s := p.session
	reason, message := v1alpha1.EventResumed, "runs again in "+d.Message
	if status.Retrying(s) {
		reason, message = v1alpha1.EventRetried, fmt.Sprintf("attempt %d, in %s", s.Spec.Attempt, d.Message)
	}
	r.scheduled(p, p.reserved, d)
	p.record(r, "Normal", reason, "Resume", message)
}

// startAnew restarts a running desktop if a higher attempt is requested: a new run, with
// the same capacity.
func (r *Reconciler) startAnew(p *pass) {
	s := p.session
	held := s.Status.Placement
	if s.Spec.Attempt <= s.Status.Attempt {
		return
	}
	status.EndRun(s, r.Clock.Now())
	s.Status.Attempt, held.Run = s.Spec.Attempt, max(1, held.Run)+1
	status.SetSending(s)
	p.record(r, "Normal", v1alpha1.EventRetried, "Resume", fmt.Sprintf("attempt %d: its desktop in %s is restarted", s.Spec.Attempt, held.ClusterName))
}
