package session

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// precedence is policies made ready to be asked of many sessions: the highest
// first, by name among equals.
type precedence []ranked

type ranked struct {
	policy *v1alpha1.PlacementPolicy
	// selector of the match; one that cannot be read matches nothing.
	selector labels.Selector
}

func precedenceOf(policies []v1alpha1.PlacementPolicy) precedence {
	out := make(precedence, 0, len(policies))
	for i := range policies {
		one := ranked{policy: &policies[i], selector: labels.Everything()}
		if by := policies[i].Spec.Match.Selector; by != nil {
			selector, err := metav1.LabelSelectorAsSelector(by)
			if err != nil {
				selector = labels.Nothing()
			}
			one.selector = selector
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.policy.Spec.Precedence, a.policy.Spec.Precedence), cmp.Compare(a.policy.Name, b.policy.Name))
	})
	return out
}

// governing is the policy that a session is placed by: the one that it names,
// whether that matches it or not, or else the first that does. It is nil where
// none matches, and false where the one named is not there.
func (p precedence) governing(s *v1alpha1.VDISession) (*v1alpha1.PlacementPolicy, bool) {
	name := s.Spec.Placement.Policy
	for i := range p {
		if name != "" && p[i].policy.Name == name || name == "" && p[i].matches(s) {
			return p[i].policy, true
		}
	}
	return nil, name == ""
}

// matches is whether everything that a policy's match gives holds for a
// session.
func (r *ranked) matches(s *v1alpha1.VDISession) bool {
	m := &r.policy.Spec.Match
	in := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return in(m.Namespaces, s.Namespace) && in(m.Users, s.Spec.User) && in(m.Templates, s.Spec.Template) &&
		(len(m.Groups) == 0 || slices.ContainsFunc(s.Spec.Groups, func(g string) bool { return slices.Contains(m.Groups, g) })) &&
		r.selector.Matches(labels.Set(s.Labels))
}

// governing is the policy that one session is placed by; see precedence.
func governing(s *v1alpha1.VDISession, policies []v1alpha1.PlacementPolicy) (*v1alpha1.PlacementPolicy, bool) {
	return precedenceOf(policies).governing(s)
}
