package session

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// judgePoll is how often a session checks whether the members have evaluated its template,
// which takes them a moment when it is new.
const judgePoll = 50 * time.Millisecond

// resolve finds the template spec that the session runs: the revision of its placement or
// last run, or, before the first run and for a retry after a permanent failure, the
// template's current one.
func (r *Reconciler) resolve(ctx context.Context, p *pass) (next, error) {
	s := p.session
	again := s.Status.Placement == nil && s.Spec.Attempt > s.Status.Attempt || status.Retrying(s)
	if (s.Status.Placement != nil || s.Status.StartTime != nil) && !again {
		spec, err := r.Revisions.Spec(ctx, s.Spec.Template, s.Status.TemplateRevision)
		if err != nil {
			return done, fmt.Errorf("reading template revision %s of %s: %w", s.Status.TemplateRevision, s.Spec.Template, err)
		}
		p.spec, p.revision = spec, s.Status.TemplateRevision
		return goOn, nil
	}
	t := &v1alpha1.VDITemplate{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: s.Spec.Template}, t)
	if apierrors.IsNotFound(err) {
		return goOn, nil
	}
	if err != nil {
		return done, fmt.Errorf("reading the template: %w", err)
	}
	revision, err := v1alpha1.RevisionOf(&t.Spec)
	if err != nil {
		return done, err
	}
	p.template, p.spec, p.revision = t, &t.Spec, revision
	return goOn, nil
}

// accept checks whether the session may be placed. A session that is not accepted waits for
// a change of itself, of its template or of the policies.
func (r *Reconciler) accept(ctx context.Context, p *pass) (next, error) {
	s := p.session
	if s.Status.Placement == nil {
		if err := r.readPolicies(ctx, p); err != nil {
			return done, err
		}
	}
	leaving := p.template != nil && !p.template.DeletionTimestamp.IsZero()
	c := r.acceptance(s, p.spec, leaving, p.policies)
	if v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, c) && c.Status == metav1.ConditionFalse {
		p.record(r, "Warning", v1alpha1.EventNotAllowed, "Accept", c.Message)
	}
	switch {
	case s.Status.Placement != nil && !status.Retrying(s):
		p.resources = s.Status.Resources
		return goOn, nil
	case c.Status == metav1.ConditionFalse:
		r.Fleet.Release(s.UID)
		return done, nil
	}
	p.resources = p.spec.Resources.For(s.Spec.Resources)
	if s.Status.Placement == nil {
		s.Status.Resources = p.resources
	}
	return goOn, nil
}

func (r *Reconciler) readPolicies(ctx context.Context, p *pass) error {
	policies := &v1alpha1.PlacementPolicyList{}
	if err := r.Client.List(ctx, policies); err != nil {
		return fmt.Errorf("listing placement policies: %w", err)
	}
	p.policies = policies.Items
	return nil
}

// place places a session without a member, under the next epoch.
func (r *Reconciler) place(ctx context.Context, p *pass) (next, error) {
	s := p.session
	switch {
	case s.Status.Placement != nil:
		return goOn, nil
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended:
		r.Fleet.Release(s.UID)
		r.unscheduled(p, v1alpha1.ReasonSuspended, "suspended, and placed nowhere: set spec.operatingMode to Running")
		return done, nil
	case status.TimeOver(s, p.spec):
		r.Fleet.Release(s.UID)
		r.unscheduled(p, v1alpha1.ReasonTimeExpired, status.ExpiredMessage(s, p.spec))
		return done, nil
	case status.FailedPermanently(s) != nil && s.Spec.Attempt <= s.Status.Attempt:
		r.Fleet.Release(s.UID)
		r.unscheduled(p, status.FailedPermanently(s).Reason, status.FailedPermanently(s).Message)
		return done, nil
	case len(status.AwaitedReleases(s)) > 0:
		r.unscheduled(p, v1alpha1.ReasonReleasing, status.ReleasingMessage(s, p.stays))
		return done, nil
	}
	if n, err := r.acquireHome(ctx, p); err != nil || n == done {
		return n, err
	}
	policy, _ := policy.Governing(s, p.policies)
	req := r.request(p, policy)
	if r.Fleet.Evaluating(req.Template) {
		p.hold, p.again = true, judgePoll
		return done, nil
	}
	if r.pauses(p) {
		return done, nil
	}
	if message := r.unheard(s, status.FailoverFor(s, p.spec, policy).Mode); message != "" {
		r.unscheduled(p, v1alpha1.ReasonHubRestored, message)
		p.await(v1alpha1.ReasonHubRestored)
		return done, nil
	}
	epoch := r.nextEpoch(s)
	decision, ok := r.ask(p, &scheduling.Request{Placement: req, Epoch: epoch})
	switch {
	case !ok:
		p.hold = true
		return done, nil
	case !decision.Placed:
		placements.WithLabelValues("unschedulable").Inc()
		r.unscheduled(p, decision.Reason, explained(decision, decision.Message))
		return done, nil
	}
	p.reserved = &v1alpha1.Placement{
		ClusterName: decision.Cluster.Name, ClusterUID: decision.Cluster.UID, Region: decision.Region, Policy: req.PolicyName,
		Epoch: epoch, PlacementTime: status.Seconds(r.Clock.Now()), Run: 1, FailoverMode: status.FailoverFor(s, p.spec, policy).Mode,
	}
	if p.template != nil {
		if err := r.Revisions.Keep(ctx, p.template, p.revision); err != nil {
			return done, err
		}
	}
	r.scheduled(p, p.reserved, decision.Decision)
	p.record(r, "Normal", v1alpha1.EventPlaced, "Place", decision.Message)
	return goOn, nil
}

// scheduled writes a decision to place, or to run again, into the status: a new run begins,
// of which the member has no order yet.
func (r *Reconciler) scheduled(p *pass, at *v1alpha1.Placement, d placement.Decision) {
	s := p.session
	p.decision = d
	s.Status.Placement, s.Status.Epoch = at, max(s.Status.Epoch, at.Epoch)
	s.Status.TemplateRevision, s.Status.Resources, s.Status.Attempt = p.revision, p.resources, s.Spec.Attempt
	s.Status.AccessSecretName = secret.AccessName(s, p.spec)
	v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, metav1.Condition{
		Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, Reason: d.Reason, Message: d.Message,
	})
	status.SetSending(s)
}

// unscheduled shows why the session has no member.
func (r *Reconciler) unscheduled(p *pass, reason, message string) {
	s := p.session
	c := metav1.Condition{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, c) {
		p.record(r, "Warning", v1alpha1.EventWaiting, "Place", message)
	}
}

// request returns the session's placement request. policy may be nil.
func (r *Reconciler) request(p *pass, policy *v1alpha1.PlacementPolicy) placement.Request {
	req := placement.RequestFor(p.session, p.spec, p.revision, policy)
	req.Resources = placement.ResourcesOf(p.resources)
	req.Refused = r.memory.Unwilling(p.session.UID, r.Clock.Now(), r.Fleet.ReportedAt)
	avoid(&req, p.session)
	req.Failover = status.Displaced(p.session)
	req.Home = p.home.pinned
	return req
}
