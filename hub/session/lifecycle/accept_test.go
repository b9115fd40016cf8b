package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestAcceptance(t *testing.T) {
	type condition struct{ Status, Reason, Message string }
	yes := condition{"True", "Accepted", "the session may run template browser"}
	requests := func(name, amount string) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) {
			s.Spec.Resources = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(amount)}
		}
	}
	fresh := func(s *v1alpha1.VDISession) { s.Status.Epoch = 0 }
	named := func(s *v1alpha1.VDISession) { s.Spec.Placement.Policy = "home" }
	timeout := func(d v1alpha1.Duration) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) { s.Spec.Timeout = d }
	}
	idle := func(d v1alpha1.Duration) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) { s.Spec.IdleTimeout = d }
	}
	groups := func(names ...string) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) { s.Spec.Groups = names }
	}
	unlimited := &v1alpha1.TemplateSpec{Timeout: v1alpha1.TimeLimit{Max: "8h", Unlimited: true}}
	limits := &v1alpha1.TemplateSpec{IdleTimeout: v1alpha1.TimeLimit{Max: "1h"}}
	limits.Resources.Default = corev1.ResourceList{"cpu": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse("1")}
	limits.Resources.Max = corev1.ResourceList{"memory": resource.MustParse("4Gi")}
	limits.Timeout = v1alpha1.TimeLimit{Default: "1h", Max: "8h"}
	none := &v1alpha1.TemplateSpec{}
	none.Resources.Default = corev1.ResourceList{"cpu": resource.MustParse("0")}
	for _, c := range []struct {
		name     string
		session  *v1alpha1.VDISession
		template *v1alpha1.TemplateSpec
		want     condition
	}{
		{"anybody may where nothing is limited", sessiontest.With(), &v1alpha1.TemplateSpec{}, yes},
		{"no template", sessiontest.With(), nil, condition{"False", "TemplateNotFound",
			`there is no template "browser": create it, or delete the session and name one that exists (kubectl get vditemplates)`}},
		{"disabled", sessiontest.With(fresh), &v1alpha1.TemplateSpec{State: v1alpha1.TemplateDisabled}, condition{"False", "TemplateDisabled",
			`template "browser" accepts no new sessions: its spec.state is Disabled; set it to Enabled, or delete the session and name another template`}},
		{"disabled, but it was placed before", sessiontest.With(), &v1alpha1.TemplateSpec{State: v1alpha1.TemplateDisabled}, yes},
		{"hidden", sessiontest.With(fresh), &v1alpha1.TemplateSpec{State: v1alpha1.TemplateHidden}, yes},
		{"another user", sessiontest.With(), &v1alpha1.TemplateSpec{AllowedUsers: []string{"bob"}}, condition{"False", "UserNotAllowed",
			`template "browser" is not for user "ann": it has to be added to the template's spec.allowedUsers`}},
		{"another user, of an allowed group", sessiontest.With(groups("eng", "ops")),
			&v1alpha1.TemplateSpec{AllowedUsers: []string{"bob"}, AllowedGroups: []string{"ops"}}, yes},
		{"an allowed user, of another group", sessiontest.With(groups("eng")),
			&v1alpha1.TemplateSpec{AllowedUsers: []string{"ann"}, AllowedGroups: []string{"ops"}}, yes},
		{"other groups", sessiontest.With(groups("eng", "art")), &v1alpha1.TemplateSpec{AllowedGroups: []string{"ops"}}, condition{"False", "UserNotAllowed",
			`template "browser" is not for user "ann": it has to be added to the template's spec.allowedUsers, or one of its groups (eng, art) to spec.allowedGroups`}},
		{"no groups", sessiontest.With(), &v1alpha1.TemplateSpec{AllowedGroups: []string{"ops"}}, condition{"False", "UserNotAllowed",
			`template "browser" is not for user "ann": it has to be added to the template's spec.allowedUsers, or the session created with spec.groups that has one of the template's spec.allowedGroups`}},
		{"another namespace", sessiontest.With(), &v1alpha1.TemplateSpec{AllowedNamespaces: []string{"lab"}}, condition{"False", "NamespaceNotAllowed",
			`template "browser" is not for namespace "desktops": it has to be added to the template's spec.allowedNamespaces`}},
		{"as much as the maximum", sessiontest.With(requests("memory", "4Gi")), limits, yes},
		{"more than the maximum", sessiontest.With(requests("memory", "5Gi")), limits, condition{"False", "ResourcesExceedMaximum",
			`5Gi of memory is more than the 4Gi that template "browser" allows: request less, or raise the template's spec.resources.max`}},
		{"none of the memory, which would be no limit", sessiontest.With(requests("memory", "0")), limits, condition{"False", "ResourcesInvalid",
			`0 of memory would mean no limit: delete the session and create it with more, or without it for the default of template "browser"`}},
		{"none of the disk space", sessiontest.With(requests("ephemeral-storage", "0Gi")), limits, condition{"False", "ResourcesInvalid",
			`0 of ephemeral-storage would mean no limit: delete the session and create it with more, or without it for the default of template "browser"`}},
		{"none of the cpu, placed before that was refused", sessiontest.With(requests("cpu", "0"), sessiontest.PlacedAt(sessiontest.Here, 5)), limits, condition{"False", "ResourcesInvalid",
			`0 of cpu would mean no limit: delete the session and create it with more, or without it for the default of template "browser"`}},
		{"a template that gives none", sessiontest.With(), none, condition{"False", "ResourcesInvalid",
			`template "browser" sets 0 of cpu, which would be no limit: raise it in the template's spec.resources.default or spec.resources.max`}},
		{"what a template gives none of, requested", sessiontest.With(requests("cpu", "1")), none, yes},
		{"no devices", sessiontest.With(requests("nvidia.com/gpu", "0")), limits, yes},
		{"no maximum of cpu", sessiontest.With(requests("cpu", "64")), limits, yes},
		{"more devices than the default, which is the most", sessiontest.With(requests("nvidia.com/gpu", "2")), limits, condition{"False", "ResourcesExceedMaximum",
			`2 of nvidia.com/gpu is more than the 1 that template "browser" allows: request less, or raise the template's spec.resources.max`}},
		{"devices that the template does not offer", sessiontest.With(requests("amd.com/gpu", "1")), limits, condition{"False", "ResourcesExceedMaximum",
			`1 of amd.com/gpu is more than the 0 that template "browser" allows: request less, or raise the template's spec.resources.max`}},
		{"as long as the maximum", sessiontest.With(timeout("480m")), limits, yes},
		{"longer than the maximum", sessiontest.With(timeout("9h")), limits, condition{"False", "TimeoutExceedsMaximum",
			`spec.timeout of 9h is more than the 8h that template "browser" allows: request less, or raise the template's spec.timeout.max`}},
		{"no limit, which the template does not allow", sessiontest.With(timeout("0s")), limits, condition{"False", "TimeoutExceedsMaximum",
			`spec.timeout of 0s requests no limit, which template "browser" does not allow: request a time, or set the template's spec.timeout.unlimited`}},
		{"no limit, written otherwise, where there is no maximum", sessiontest.With(timeout("0h0m")), &v1alpha1.TemplateSpec{}, condition{"False", "TimeoutExceedsMaximum",
			`spec.timeout of 0h0m requests no limit, which template "browser" does not allow: request a time, or set the template's spec.timeout.unlimited`}},
		{"no limit, which the template allows", sessiontest.With(timeout("0s")), unlimited, yes},
		{"a longer idle time than the maximum", sessiontest.With(idle("2h")), limits, condition{"False", "IdleTimeoutExceedsMaximum",
			`spec.idleTimeout of 2h is more than the 1h that template "browser" allows: request less, or raise the template's spec.idleTimeout.max`}},
		{"no idle limit, which the template does not allow", sessiontest.With(idle("0s")), unlimited, condition{"False", "IdleTimeoutExceedsMaximum",
			`spec.idleTimeout of 0s requests no limit, which template "browser" does not allow: request a time, or set the template's spec.idleTimeout.unlimited`}},
		{"a policy that there is not", sessiontest.With(named), &v1alpha1.TemplateSpec{}, condition{"False", "PolicyNotFound",
			`there is no placement policy "home": create it, or change spec.placement.policy`}},
		{"a policy that there is no more, once placed", sessiontest.With(named, sessiontest.PlacedAt(sessiontest.Here, 5)), &v1alpha1.TemplateSpec{}, yes},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := acceptance(c.session, c.template, false, policy.NewPrecedence([]v1alpha1.PlacementPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}))
			if diff := cmp.Diff(c.want, condition{string(got.Status), got.Reason, got.Message}); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTemplateThatIsBeingDeletedAcceptsNoNewSessions(t *testing.T) {
	for _, c := range []struct {
		name  string
		epoch int64
		want  string
	}{{"new", 0, v1alpha1.ReasonTemplateTerminating}, {"placed before", 3, v1alpha1.ReasonAccepted}} {
		s := sessiontest.With()
		s.Status.Epoch = c.epoch
		if got := acceptance(s, &v1alpha1.TemplateSpec{}, true, nil); got.Reason != c.want {
			t.Errorf("%s: got %s: %s", c.name, got.Reason, got.Message)
		}
	}
}
