package session

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// matches is whether everything that a policy's match gives holds for a
// session. A selector that cannot be read matches nothing.
func matches(s *v1alpha1.VDISession, m *v1alpha1.PolicyMatch) bool {
	if len(m.Namespaces) > 0 && !slices.Contains(m.Namespaces, s.Namespace) {
		return false
	}
	if len(m.Users) > 0 && !slices.Contains(m.Users, s.Spec.User) {
		return false
	}
	if len(m.Templates) > 0 && !slices.Contains(m.Templates, s.Spec.Template) {
		return false
	}
	if m.Selector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(m.Selector)
	return err == nil && selector.Matches(labels.Set(s.Labels))
}

// governing is the policy that a session is placed by: the one that it names,
// or of those that match it the one of the highest precedence, by name among
// equals. It is nil where none matches, and false where the one named is not
// there.
func governing(s *v1alpha1.VDISession, policies []v1alpha1.PlacementPolicy) (*v1alpha1.PlacementPolicy, bool) {
	var best *v1alpha1.PlacementPolicy
	for i := range policies {
		p := &policies[i]
		if s.Spec.Placement.Policy != "" {
			if p.Name == s.Spec.Placement.Policy {
				return p, true
			}
			continue
		}
		if !matches(s, &p.Spec.Match) {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(best.Spec.Precedence, p.Spec.Precedence), cmp.Compare(p.Name, best.Name)) < 0 {
			best = p
		}
	}
	return best, s.Spec.Placement.Policy == ""
}
