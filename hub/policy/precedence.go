package policy

import (
	"cmp"
	"slices"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Precedence is a list of policies prepared for many sessions: highest precedence first,
// by name among equals.
type Precedence []ranked

type ranked struct {
	policy *v1alpha1.PlacementPolicy
	// selector of the match; a malformed one matches nothing.
	selector labels.Selector
}

// NewPrecedence sorts policies.
func NewPrecedence(policies []v1alpha1.PlacementPolicy) Precedence {
	out := make(Precedence, 0, len(policies))
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

// Governing returns the policy that a session names, whether it matches or not, or else
// the first that matches, or nil if none does. It returns false if the named policy does
// not exist.
func (p Precedence) Governing(s *v1alpha1.VDISession) (*v1alpha1.PlacementPolicy, bool) {
	name := s.Spec.Placement.Policy
	for i := range p {
		if name != "" && p[i].policy.Name == name || name == "" && p[i].matches(s) {
			return p[i].policy, true
		}
	}
	return nil, name == ""
}

// matches reports whether all criteria of a policy's match hold for a session.
func (r *ranked) matches(s *v1alpha1.VDISession) bool {
	m := &r.policy.Spec.Match
	in := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	return in(m.Namespaces, s.Namespace) && in(m.Users, s.Spec.User) && in(m.Templates, s.Spec.Template) &&
		(len(m.Groups) == 0 || slices.ContainsFunc(s.Spec.Groups, func(g string) bool { return slices.Contains(m.Groups, g) })) &&
		r.selector.Matches(labels.Set(s.Labels))
}

// Named returns the policy of that name, or nil.
func (p Precedence) Named(name string) *v1alpha1.PlacementPolicy {
	for i := range p {
		if p[i].policy.Name == name {
			return p[i].policy
		}
	}
	return nil
}

// Prepared keeps the Precedence of the policies that were last given to it: preparing them
// costs more than reading them.
type Prepared struct{ last atomic.Pointer[prepared] }

type prepared struct {
	versions   map[types.UID]string
	precedence Precedence
}

// Of returns the Precedence of policies, which must not be changed.
func (p *Prepared) Of(policies []v1alpha1.PlacementPolicy) Precedence {
	if last := p.last.Load(); last != nil && last.has(policies) {
		return last.precedence
	}
	now := &prepared{versions: make(map[types.UID]string, len(policies)), precedence: NewPrecedence(policies)}
	for i := range policies {
		now.versions[policies[i].UID] = policies[i].ResourceVersion
	}
	p.last.Store(now)
	return now.precedence
}

func (p *prepared) has(policies []v1alpha1.PlacementPolicy) bool {
	for i := range policies {
		if version, ok := p.versions[policies[i].UID]; !ok || version != policies[i].ResourceVersion {
			return false
		}
	}
	return len(policies) == len(p.versions)
}
