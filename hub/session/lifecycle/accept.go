package lifecycle

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// resolve determines the template spec that the session runs: the revision of its
// placement or last run, or, before the first run and for a retry after a permanent
// failure, the template's current one.
func resolve(p *pass) next {
	s, t := p.Session, &p.in.Template
	again := s.Status.Placement == nil && s.Spec.Attempt > s.Status.Attempt || status.Retrying(s)
	switch {
	case (s.Status.Placement != nil || s.Status.StartTime != nil) && !again:
		if t.Unread != nil {
			p.Err = t.Unread
			return done
		}
		p.spec, p.revision = t.Run, s.Status.TemplateRevision
	case t.Current != nil:
		p.template, p.spec, p.revision = t.Current, &t.Current.Spec, t.Revision
	}
	return proceed
}

// accept checks whether the session may be placed. A session that is not accepted waits for
// a change of itself, of its template or of the policies.
func accept(p *pass) next {
	s := p.Session
	c := p.acceptance()
	if v1alpha1.SetCondition(&s.Status.Conditions, s.Generation, c) && c.Status == metav1.ConditionFalse {
		p.warn(v1alpha1.EventNotAllowed, "Accept", c.Message)
	}
	switch {
	case s.Status.Placement != nil && !status.Retrying(s):
		p.resources = s.Status.Resources
		return proceed
	case c.Status == metav1.ConditionFalse:
		p.Release = true
		return done
	}
	p.resources = p.spec.Resources.For(s.Spec.Resources)
	if s.Status.Placement == nil {
		s.Status.Resources = p.resources
	}
	return proceed
}

// acceptance returns the condition Accepted of the session, including whether this hub
// serves its namespace.
func (p *pass) acceptance() metav1.Condition {
	if p.in.NotServed != "" {
		return metav1.Condition{
			Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNamespaceNotAllowed, Message: p.in.NotServed,
		}
	}
	terminating := p.template != nil && !p.template.DeletionTimestamp.IsZero()
	return acceptance(p.Session, p.spec, terminating, p.in.Policies)
}

// acceptance returns the condition Accepted of a session. The first check that fails
// determines it. terminating is set if the template is being deleted. policies are all
// placement policies; they are only used for a session that is not placed.
func acceptance(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, terminating bool, policies policy.Precedence) metav1.Condition {
	checkTerminating := func(s *v1alpha1.VDISession, _ *v1alpha1.TemplateSpec) (string, string) {
		return checkTerminating(s, terminating)
	}
	checkPolicy := func(s *v1alpha1.VDISession, _ *v1alpha1.TemplateSpec) (string, string) {
		return checkPolicy(s, policies)
	}
	for _, check := range []func(*v1alpha1.VDISession, *v1alpha1.TemplateSpec) (reason, message string){
		checkSize, checkTemplate, checkTerminating, checkUser, checkNamespace, checkResources, checkTimeout, checkIdleTimeout, checkFailover, checkEnv, checkFiles, checkPolicy,
	} {
		if reason, message := check(s, t); reason != "" {
			return metav1.Condition{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: reason, Message: message}
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted,
		Message: fmt.Sprintf("the session may run template %s", s.Spec.Template),
	}
}
