package session

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestAcceptance(t *testing.T) {
	type condition struct{ Status, Reason, Message string }
	yes := condition{"True", "Accepted", "the session may run template browser"}
	ask := func(name, amount string) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) {
			s.Spec.Resources = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(amount)}
		}
	}
	fresh := func(s *v1alpha1.VDISession) { s.Status.Epoch = 0 }
	named := func(s *v1alpha1.VDISession) { s.Spec.Placement.Policy = "home" }
	timeout := func(d v1alpha1.Duration) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) { s.Spec.Timeout = d }
	}
	limits := &v1alpha1.TemplateSpec{}
	limits.Resources.Default = corev1.ResourceList{"cpu": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("1")}
	limits.Resources.Max = corev1.ResourceList{"memory": resource.MustParse("4Gi")}
	limits.Timeout = v1alpha1.TimeLimit{Default: "1h", Max: "8h"}
	for _, c := range []struct {
		name     string
		session  *v1alpha1.VDISession
		template *v1alpha1.TemplateSpec
		want     condition
	}{
		{"anybody may where nothing is limited", sessionWith(), &v1alpha1.TemplateSpec{}, yes},
		{"no template", sessionWith(), nil, condition{"False", "TemplateNotFound",
			`there is no template "browser": create it, or delete the session and name one that exists (kubectl get vditemplates)`}},
		{"disabled", sessionWith(fresh), &v1alpha1.TemplateSpec{State: v1alpha1.TemplateDisabled}, condition{"False", "TemplateDisabled",
			`template "browser" takes no new sessions: its spec.state is Disabled`}},
		{"disabled, but it was placed before", sessionWith(), &v1alpha1.TemplateSpec{State: v1alpha1.TemplateDisabled}, yes},
		{"hidden", sessionWith(fresh), &v1alpha1.TemplateSpec{State: v1alpha1.TemplateHidden}, yes},
		{"another user", sessionWith(), &v1alpha1.TemplateSpec{AllowedUsers: []string{"bob"}}, condition{"False", "UserNotAllowed",
			`template "browser" is not for user "ann": it has to be added to the template's spec.allowedUsers`}},
		{"another namespace", sessionWith(), &v1alpha1.TemplateSpec{AllowedNamespaces: []string{"lab"}}, condition{"False", "NamespaceNotAllowed",
			`template "browser" is not for namespace "desktops": it has to be added to the template's spec.allowedNamespaces`}},
		{"as much as the maximum", sessionWith(ask("memory", "4Gi")), limits, yes},
		{"more than the maximum", sessionWith(ask("memory", "5Gi")), limits, condition{"False", "ResourcesExceedMaximum",
			`5Gi of memory is more than the 4Gi that template "browser" allows: ask for less, or raise the template's spec.resources.max`}},
		{"no maximum of cpu", sessionWith(ask("cpu", "64")), limits, yes},
		{"more devices than the default, which is the most", sessionWith(ask("nvidia.com/gpu", "2")), limits, condition{"False", "ResourcesExceedMaximum",
			`2 of nvidia.com/gpu is more than the 1 that template "browser" allows: ask for less, or raise the template's spec.resources.max`}},
		{"devices that the template does not offer", sessionWith(ask("amd.com/gpu", "1")), limits, condition{"False", "ResourcesExceedMaximum",
			`1 of amd.com/gpu is more than the 0 that template "browser" allows: ask for less, or raise the template's spec.resources.max`}},
		{"as long as the maximum", sessionWith(timeout("480m")), limits, yes},
		{"longer than the maximum", sessionWith(timeout("9h")), limits, condition{"False", "TimeoutExceedsMaximum",
			`a timeout of 9h is more than the 8h that template "browser" allows`}},
		{"a policy that there is not", sessionWith(named), &v1alpha1.TemplateSpec{}, condition{"False", "PolicyNotFound",
			`there is no placement policy "home": create it, or change spec.placement.policy`}},
		{"a policy that there is no more, once placed", sessionWith(named, placedAt(here, 5)), &v1alpha1.TemplateSpec{}, yes},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := acceptance(c.session, c.template, []v1alpha1.PlacementPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "other"}}})
			if diff := cmp.Diff(c.want, condition{string(got.Status), got.Reason, got.Message}); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResources(t *testing.T) {
	template := &v1alpha1.TemplateSpec{}
	if got := resources(sessionWith(), template); got != nil {
		t.Errorf("got %v where nobody asks for anything", got)
	}
	template.Resources.Default = corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
	s := sessionWith()
	s.Spec.Resources = corev1.ResourceList{"cpu": resource.MustParse("2")}
	want := corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}
	if diff := cmp.Diff(want, resources(s, template)); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

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
			name: "everything that is given must hold",
			policies: []v1alpha1.PlacementPolicy{
				policy("namespace", 9, v1alpha1.PolicyMatch{Namespaces: []string{"lab"}}),
				policy("user", 8, v1alpha1.PolicyMatch{Namespaces: []string{"desktops"}, Users: []string{"bob"}}),
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
			s := sessionWith()
			s.Labels = map[string]string{"team": "blue"}
			s.Spec.Placement.Policy = c.named
			got, found := governing(s, c.policies)
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
