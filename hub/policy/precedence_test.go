package policy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestGoverning(t *testing.T) {
	policy := func(name string, precedence int32, match v1alpha1.PolicyMatch) v1alpha1.PlacementPolicy {
		p := v1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		p.Spec.Precedence, p.Spec.Match = precedence, match
		return p
	}
	selector := func(value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"team": value}}
	}
	malformed := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Like"}}}
	for _, c := range []struct {
		name     string
		policies []v1alpha1.PlacementPolicy
		named    string
		want     string
		found    bool
	}{
		{name: "there is none", found: true},
		{name: "one for all", policies: []v1alpha1.PlacementPolicy{policy("all", 0, v1alpha1.PolicyMatch{})}, want: "all", found: true},
		{
			name:     "the highest precedence",
			policies: []v1alpha1.PlacementPolicy{policy("a", 1, v1alpha1.PolicyMatch{}), policy("z", 2, v1alpha1.PolicyMatch{})},
			want:     "z", found: true,
		},
		{
			name:     "by name among equals",
			policies: []v1alpha1.PlacementPolicy{policy("z", 1, v1alpha1.PolicyMatch{}), policy("a", 1, v1alpha1.PolicyMatch{})},
			want:     "a", found: true,
		},
		{
			name: "everything that is set must hold",
			policies: []v1alpha1.PlacementPolicy{
				policy("namespace", 9, v1alpha1.PolicyMatch{Namespaces: []string{"lab"}}),
				policy("user", 8, v1alpha1.PolicyMatch{Namespaces: []string{"desktops"}, Users: []string{"bob"}}),
				policy("group", 8, v1alpha1.PolicyMatch{Groups: []string{"admins", "ops"}}),
				policy("template", 7, v1alpha1.PolicyMatch{Templates: []string{"gpu"}}),
				policy("selector", 6, v1alpha1.PolicyMatch{Selector: selector("red")}),
				policy("malformed", 5, v1alpha1.PolicyMatch{Selector: malformed}),
				policy("fits", 4, v1alpha1.PolicyMatch{
					Namespaces: []string{"desktops"}, Users: []string{"ann"}, Templates: []string{"browser"}, Selector: selector("blue"),
				}),
			},
			want: "fits", found: true,
		},
		{
			name:     "one of the groups is enough",
			policies: []v1alpha1.PlacementPolicy{policy("all", 1, v1alpha1.PolicyMatch{}), policy("groups", 9, v1alpha1.PolicyMatch{Groups: []string{"ops", "makers"}})},
			want:     "groups", found: true,
		},
		{
			name:     "the one that is named, whatever it matches",
			policies: []v1alpha1.PlacementPolicy{policy("all", 9, v1alpha1.PolicyMatch{}), policy("mine", 0, v1alpha1.PolicyMatch{Users: []string{"bob"}})},
			named:    "mine", want: "mine", found: true,
		},
		{
			name:     "the one that is named is not there",
			policies: []v1alpha1.PlacementPolicy{policy("all", 9, v1alpha1.PolicyMatch{})},
			named:    "mine",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessiontest.With()
			s.Labels, s.Spec.Groups = map[string]string{"team": "blue"}, []string{"staff", "makers"}
			s.Spec.Placement.Policy = c.named
			got, found := NewPrecedence(c.policies).Governing(s)
			name := ""
			if got != nil {
				name = got.Name
			}
			if name != c.want || found != c.found {
				t.Errorf("got %q, %t; want %q, %t", name, found, c.want, c.found)
			}
		})
	}
}

func TestPreparedPoliciesFollowTheirChanges(t *testing.T) {
	one := func(uid, version string, precedence int32) v1alpha1.PlacementPolicy {
		p := v1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid), ResourceVersion: version}}
		p.Spec.Precedence = precedence
		return p
	}
	var prepared Prepared
	for _, step := range []struct {
		policies []v1alpha1.PlacementPolicy
		governs  string
	}{
		{[]v1alpha1.PlacementPolicy{one("a", "1", 1), one("b", "1", 2)}, "b"},
		{[]v1alpha1.PlacementPolicy{one("b", "1", 2), one("a", "1", 1)}, "b"},
		{[]v1alpha1.PlacementPolicy{one("b", "1", 2), one("a", "2", 3)}, "a"},
		{[]v1alpha1.PlacementPolicy{one("b", "1", 2)}, "b"},
		{[]v1alpha1.PlacementPolicy{one("c", "1", 2)}, "c"},
	} {
		if got, _ := prepared.Of(step.policies).Governing(sessiontest.With()); got.Name != step.governs {
			t.Errorf("%s governs, want %s", got.Name, step.governs)
		}
	}
}
