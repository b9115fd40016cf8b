package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
)

func checkSize(s *v1alpha1.VDISession, _ *v1alpha1.TemplateSpec) (string, string) {
	size := trim.Omitted(s)
	if size == 0 {
		return "", ""
	}
	return v1alpha1.ReasonSessionTooLarge, fmt.Sprintf(
		"its labels, ownerReferences, finalizers, groups, placement and resources have %d bytes together, at most %d: delete the session and create it with less", size, trim.MaxSize)
}

func checkTemplate(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	switch {
	case t == nil:
		return v1alpha1.ReasonTemplateNotFound, fmt.Sprintf("there is no template %q: create it, or delete the session and name one that exists (kubectl get vditemplates)", s.Spec.Template)
	case t.State == v1alpha1.TemplateDisabled && isNew(s):
		return v1alpha1.ReasonTemplateDisabled, fmt.Sprintf("template %q accepts no new sessions: its spec.state is Disabled; set it to Enabled, or delete the session and name another template", s.Spec.Template)
	}
	return "", ""
}

func checkTerminating(s *v1alpha1.VDISession, terminating bool) (string, string) {
	if !terminating || !isNew(s) {
		return "", ""
	}
	return v1alpha1.ReasonTemplateTerminating, fmt.Sprintf("template %q is being deleted and accepts no new sessions: delete the session and name another template, or create the template again once it is gone", s.Spec.Template)
}

// isNew reports whether a session was never placed.
func isNew(s *v1alpha1.VDISession) bool { return s.Status.Epoch == 0 }

// checkUser requires one of the users or groups that the template names, if it names any.
func checkUser(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	if t.AllowsUser(s.Spec.User, s.Spec.Groups) {
		return "", ""
	}
	message := fmt.Sprintf("template %q is not for user %q: it has to be added to the template's spec.allowedUsers", s.Spec.Template, s.Spec.User)
	switch {
	case len(t.AllowedGroups) == 0:
	case len(s.Spec.Groups) == 0:
		message += ", or the session created with spec.groups that has one of the template's spec.allowedGroups"
	default:
		message += fmt.Sprintf(", or one of its groups (%s) to spec.allowedGroups", strings.Join(s.Spec.Groups, ", "))
	}
	return v1alpha1.ReasonUserNotAllowed, message
}

func checkNamespace(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	if t.AllowsNamespace(s.Namespace) {
		return "", ""
	}
	return v1alpha1.ReasonNamespaceNotAllowed, fmt.Sprintf("template %q is not for namespace %q: it has to be added to the template's spec.allowedNamespaces", s.Spec.Template, s.Namespace)
}

func checkResources(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	if reason, message := checkLimits(s, t); reason != "" {
		return reason, message
	}
	for _, name := range slices.Sorted(maps.Keys(s.Spec.Resources)) {
		requested := s.Spec.Resources[name]
		most, limited := t.Resources.Max[name]
		if !limited && !v1alpha1.ZeroIsNoLimit(name) {
			// A template must offer devices before a session can request them.
			most, limited = t.Resources.Default[name], true
		}
		if limited && requested.Cmp(most) > 0 {
			return v1alpha1.ReasonResourcesExceedMaximum, fmt.Sprintf("%s of %s is more than the %s that template %q allows: request less, or raise the template's spec.resources.max", requested.String(), name, most.String(), s.Spec.Template)
		}
	}
	return "", ""
}

// checkLimits refuses a resource for which a session would have no limit. An API server
// refuses it too, but objects that it stored before remain.
func checkLimits(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	name := v1alpha1.WithoutLimit(s.Spec.Resources)
	if name != "" {
		requested := s.Spec.Resources[name]
		return v1alpha1.ReasonResourcesInvalid, fmt.Sprintf("%s of %s would mean no limit: delete the session and create it with more, or without it for the default of template %q", requested.String(), name, s.Spec.Template)
	}
	if name = v1alpha1.WithoutLimit(t.Resources.For(s.Spec.Resources)); name != "" {
		return v1alpha1.ReasonResourcesInvalid, fmt.Sprintf("template %q sets 0 of %s, which would be no limit: raise it in the template's spec.resources.default or spec.resources.max", s.Spec.Template, name)
	}
	return "", ""
}

func checkTimeout(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	return checkLimit(v1alpha1.ReasonTimeoutExceedsMaximum, "timeout", s.Spec.Template, s.Spec.Timeout, t.Timeout)
}

func checkIdleTimeout(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	return checkLimit(v1alpha1.ReasonIdleTimeoutExceedsMaximum, "idleTimeout", s.Spec.Template, s.Spec.IdleTimeout, t.IdleTimeout)
}

// checkLimit refuses a requested time beyond a limit. Zero requests no limit at all.
func checkLimit(reason, field, template string, requested v1alpha1.Duration, limit v1alpha1.TimeLimit) (string, string) {
	d, ok := requested.Value()
	maximum, limited := limit.Max.Value()
	switch {
	case ok && d == 0 && !limit.Unlimited:
		return reason, fmt.Sprintf("spec.%s of %s requests no limit, which template %q does not allow: request a time, or set the template's spec.%s.unlimited", field, requested, template, field)
	case ok && d != 0 && limited && d > maximum:
		return reason, fmt.Sprintf("spec.%s of %s is more than the %s that template %q allows: request less, or raise the template's spec.%s.max", field, requested, limit.Max, template, field)
	}
	return "", ""
}

func checkPolicy(s *v1alpha1.VDISession, policies policy.Precedence) (string, string) {
	if s.Status.Placement != nil {
		return "", ""
	}
	if _, found := policies.Governing(s); !found {
		return v1alpha1.ReasonPolicyNotFound, noPolicy(s)
	}
	return "", ""
}

// noPolicy returns the message for a session that names a policy which does not exist.
func noPolicy(s *v1alpha1.VDISession) string {
	return fmt.Sprintf("there is no placement policy %q: create it, or change spec.placement.policy", s.Spec.Placement.Policy)
}

func checkEnv(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	for _, e := range s.Spec.Env {
		why := assignment.EnvRefused(t, e.Name)
		if why == "" {
			continue
		}
		remedy := "remove it from spec.env"
		if why != "the template sets it from a Secret" {
			remedy += ", or add it to the template's spec.overridableEnv"
		}
		return v1alpha1.ReasonEnvNotAllowed, fmt.Sprintf("variable %s of spec.env is not allowed by template %q, and not passed to the desktop: %s; %s",
			e.Name, s.Spec.Template, why, remedy)
	}
	return "", ""
}

func checkFiles(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	for _, f := range s.Spec.Files {
		if assignment.FileRefused(t, f.Name) {
			return v1alpha1.ReasonFileNotAllowed, fmt.Sprintf("file %s of spec.files is not allowed by template %q, and not passed to the desktop: the template sets files; "+
				"remove it from spec.files, or add it to the template's spec.overridableFiles", f.Name, s.Spec.Template)
		}
	}
	return "", ""
}

// checkFailover refuses a mode that would lose the contents of the session's home.
func checkFailover(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	mode := s.Spec.Failover.Mode
	if mode == "" || mode == v1alpha1.FailoverHold || !status.HasHome(t) {
		return "", ""
	}
	return v1alpha1.ReasonFailoverLosesHome, fmt.Sprintf(
		"spec.failover.mode %s would lose the contents of the session's home, which template %q requires: set it to Hold or omit it, or name a template without a home",
		mode, s.Spec.Template)
}
