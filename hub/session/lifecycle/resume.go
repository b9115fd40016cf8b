package lifecycle

import (
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// resume runs a stopped desktop again once nothing prevents that: in its member, under
// its current epoch, or elsewhere if there is no capacity and no home keeps it.
// Capacity is reserved first. A session whose home is there waits, and so does one
// whose member can't confirm a stop now.
func resume(p *pass) next {
	s := p.Session
	held := s.Status.Placement
	switch {
	case !held.Idle:
		restart(p)
		return proceed
	case status.StopReasonOf(s, p.spec, false, p.in.Now) != status.NotStopped:
		keepStopped(p)
		return proceed
	}
	if p.acquireHome() == done {
		p.Release = true
		return done
	}
	again := *held
	again.Idle, again.Run = false, max(1, held.Run)+1
	answer, ok := p.decide(Request{Evaluate: p.template != nil, Request: resumption(p, p.request(p.placedBy()), &again)})
	switch {
	case !ok:
		p.Hold = true
		return done
	case !answer.Placed:
		notResumed(p, answer)
		return done
	}
	p.Placed = &again
	resumed(p, answer.Decision)
	return proceed
}

// resumption returns the request to run a session again where it is, or, unless its home is
// there, in another member, by the current policies.
func resumption(p *pass, here placement.Request, again *v1alpha1.Placement) scheduling.Request {
	s := p.Session
	in := &scheduling.Resume{Placement: inPlace(here), Member: refOf(again), Epoch: again.Epoch, Run: again.Run}
	policy, governed := p.in.Policies.Governing(s)
	in.Pinned = !governed || status.HasHome(p.spec) || s.Status.Home != nil
	req := scheduling.Request{Placement: here, Resume: in, Reason: v1alpha1.ReasonNoCapacityToResume}
	if !in.Pinned {
		req.Placement, req.Epoch = p.request(policy), p.in.nextEpoch(s)
	}
	return req
}

// notResumed shows why a session is still stopped although it should run, or moves it
// to another member with capacity for it: its placement is released, and it is placed
// there once its stop is confirmed. Until then the capacity stays reserved.
func notResumed(p *pass, a scheduling.Answer) {
	s, message := p.Session, "no capacity to resume it: "+a.Message
	switch {
	case a.Reason == v1alpha1.ReasonHubRestored:
		p.unscheduled(a.Reason, a.Message)
		return
	case a.Other != nil && a.Other.Placed:
		p.Moved = v1alpha1.ReasonNoCapacityToResume
		releasePlacement(s)
		p.normal(v1alpha1.EventMoved, "Resume", fmt.Sprintf("%s: it is moved to %s", message, a.Other.Cluster.Name))
		return
	case a.Other != nil:
		message = "no capacity to resume it: " + a.Other.Message
	case status.HasHome(p.spec) || s.Status.Home != nil:
		message += "; its home is there"
	}
	p.Result = ResultUnschedulable
	p.unscheduled(v1alpha1.ReasonNoCapacityToResume, explained(a, message))
}

// inPlace reduces a request to its capacity: the member was checked when the session was
// placed, and the policy's caps count the session already.
func inPlace(req placement.Request) placement.Request {
	req.TemplateClusterSelector, req.ClusterSelector = nil, nil
	req.RequiredRegions, req.PreferredRegions, req.Refused, req.RefusedFree, req.Home = nil, nil, nil, nil, nil
	if req.Policy != nil {
		req.Policy = &v1alpha1.PlacementPolicySpec{
			ClusterTolerations: req.Policy.ClusterTolerations, HeadroomPercent: req.Policy.HeadroomPercent,
			MaxProvisioningTime: req.Policy.MaxProvisioningTime,
		}
	}
	return req
}

// resumed writes a decision to run again into the status. A session that had failed now
// runs the current template.
func resumed(p *pass, d placement.Decision) {
	s := p.Session
	reason, message := v1alpha1.EventResumed, "runs again in "+d.Message
	if status.Retrying(s) {
		reason, message = v1alpha1.EventRetried, fmt.Sprintf("attempt %d, in %s", s.Spec.Attempt, d.Message)
	}
	p.scheduled(p.Placed, d)
	p.Result = ResultResumed
	p.normal(reason, "Resume", message)
}

// restart restarts a running desktop if a higher attempt is requested: a new run, with the
// same capacity.
func restart(p *pass) {
	s := p.Session
	held := s.Status.Placement
	if s.Spec.Attempt <= s.Status.Attempt {
		return
	}
	status.EndRun(s, p.in.Now)
	s.Status.Attempt, held.Run = s.Spec.Attempt, max(1, held.Run)+1
	status.SetSending(s)
	p.normal(v1alpha1.EventRetried, "Resume", fmt.Sprintf("attempt %d: its desktop in %s is restarted", s.Spec.Attempt, held.ClusterName))
}
