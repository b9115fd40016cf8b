package session

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// acceptance checks whether a session may be placed as it is, in the order of
// the checks; the first that fails says why. policies are all that there are,
// and only asked of a session that is not placed.
func acceptance(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, policies []v1alpha1.PlacementPolicy) metav1.Condition {
	checkPolicy := func(s *v1alpha1.VDISession, _ *v1alpha1.TemplateSpec) (string, string) {
		return checkPolicy(s, policies)
	}
	for _, check := range []func(*v1alpha1.VDISession, *v1alpha1.TemplateSpec) (reason, message string){
		checkTemplate, checkUser, checkNamespace, checkResources, checkTimeout, checkPolicy,
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

func checkTemplate(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	switch {
	case t == nil:
		return v1alpha1.ReasonTemplateNotFound, fmt.Sprintf("there is no template %q: create it, or delete the session and name one that exists (kubectl get vditemplates)", s.Spec.Template)
	case t.State == v1alpha1.TemplateDisabled && s.Status.Epoch == 0:
		return v1alpha1.ReasonTemplateDisabled, fmt.Sprintf("template %q takes no new sessions: its spec.state is Disabled", s.Spec.Template)
	}
	return "", ""
}

func checkUser(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	if len(t.AllowedUsers) == 0 || slices.Contains(t.AllowedUsers, s.Spec.User) {
		return "", ""
	}
	return v1alpha1.ReasonUserNotAllowed, fmt.Sprintf("template %q is not for user %q: it has to be added to the template's spec.allowedUsers", s.Spec.Template, s.Spec.User)
}

func checkNamespace(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	if len(t.AllowedNamespaces) == 0 || slices.Contains(t.AllowedNamespaces, s.Namespace) {
		return "", ""
	}
	return v1alpha1.ReasonNamespaceNotAllowed, fmt.Sprintf("template %q is not for namespace %q: it has to be added to the template's spec.allowedNamespaces", s.Spec.Template, s.Namespace)
}

func checkResources(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	for _, name := range slices.Sorted(maps.Keys(s.Spec.Resources)) {
		asked := s.Spec.Resources[name]
		most, limited := t.Resources.Max[name]
		if !limited && isExtended(name) {
			most, limited = t.Resources.Default[name], true
		}
		if limited && asked.Cmp(most) > 0 {
			return v1alpha1.ReasonResourcesExceedMaximum, fmt.Sprintf("%s of %s is more than the %s that template %q allows: ask for less, or raise the template's spec.resources.max", asked.String(), name, most.String(), s.Spec.Template)
		}
	}
	return "", ""
}

func checkTimeout(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) (string, string) {
	asked, ok := s.Spec.Timeout.Value()
	most, limited := t.Timeout.Max.Value()
	if ok && limited && asked > most {
		return v1alpha1.ReasonTimeoutExceedsMaximum, fmt.Sprintf("a timeout of %s is more than the %s that template %q allows", s.Spec.Timeout, t.Timeout.Max, s.Spec.Template)
	}
	return "", ""
}

func checkPolicy(s *v1alpha1.VDISession, policies []v1alpha1.PlacementPolicy) (string, string) {
	if s.Status.Placement != nil {
		return "", ""
	}
	if _, found := governing(s, policies); !found {
		return v1alpha1.ReasonPolicyNotFound, fmt.Sprintf("there is no placement policy %q: create it, or change spec.placement.policy", s.Spec.Placement.Policy)
	}
	return "", ""
}

// isExtended is true of resources that a template must offer before a session
// can ask for them, such as devices.
func isExtended(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return false
	}
	return true
}

// resources are what a session gets: what it asks for, else the template's
// default.
func resources(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range t.Resources.Default {
		out[name] = q.DeepCopy()
	}
	for name, q := range s.Spec.Resources {
		out[name] = q.DeepCopy()
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
