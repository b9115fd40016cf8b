package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// lockedTemplate is a browser with policies of its own, a page that users may
// choose, and a GPU of which they may choose the capabilities.
func lockedTemplate() *v1alpha1.TemplateSpec {
	return &v1alpha1.TemplateSpec{
		Env: []v1alpha1.EnvVar{
			{Name: "LAUNCH_URL", Value: "https://example.com"}, {Name: "HTTPS_PROXY", Value: "http://proxy:3128"}, {Name: "APP_ARGS"},
		},
		OverridableEnv:   []string{"LAUNCH_URL", "NVIDIA_DRIVER_CAPABILITIES", "VNC_PW"},
		Files:            []v1alpha1.ConfigFile{{Name: "policy.json", Content: "{strict}"}},
		OverridableFiles: []string{"bookmarks.json"},
		Access:           v1alpha1.Access{PasswordEnv: "VNC_PW"},
		Secrets:          []v1alpha1.SecretUse{{Name: "license", Env: []v1alpha1.SecretEnvVar{{Name: "LICENSE", Key: "key"}}}},
	}
}

func withEnv(name string) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) { s.Spec.Env = []v1alpha1.EnvVar{{Name: name, Value: "mine"}} }
}

func withFile(name string) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) { s.Spec.Files = []v1alpha1.ConfigFile{{Name: name, Content: "{mine}"}} }
}

// desktopOf returns the desktop that is sent to the session's member.
func desktopOf(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) v1alpha1.Desktop {
	return assignment.Render(s, t, "example.com", secret.Set{}).Spec.Desktop
}

// A user can't replace what a template locks, neither when the session is accepted nor
// in the desktop of one that was accepted before.
func TestUserCannotReplaceWhatATemplateLocks(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*v1alpha1.VDISession)
		reason  string
		message string
	}{
		{"a managed policy", withFile("policy.json"), "FileNotAllowed",
			`file policy.json of spec.files is not allowed by template "browser", and not passed to the desktop: the template sets files; remove it from spec.files, or add it to the template's spec.overridableFiles`},
		{"a policy that is read after the managed one", withFile("zz.json"), "FileNotAllowed",
			`file zz.json of spec.files is not allowed by template "browser", and not passed to the desktop: the template sets files; remove it from spec.files, or add it to the template's spec.overridableFiles`},
		{"a variable of the template", withEnv("HTTPS_PROXY"), "EnvNotAllowed",
			`variable HTTPS_PROXY of spec.env is not allowed by template "browser", and not passed to the desktop: the template sets it; remove it from spec.env, or add it to the template's spec.overridableEnv`},
		{"a variable of the template in lower case", withEnv("https_proxy"), "EnvNotAllowed",
			`variable https_proxy of spec.env is not allowed by template "browser", and not passed to the desktop: the template sets it; remove it from spec.env, or add it to the template's spec.overridableEnv`},
		{"a variable that the template locks without a value", withEnv("APP_ARGS"), "EnvNotAllowed",
			`variable APP_ARGS of spec.env is not allowed by template "browser", and not passed to the desktop: the template sets it; remove it from spec.env, or add it to the template's spec.overridableEnv`},
		{"all GPUs of the node", withEnv("NVIDIA_VISIBLE_DEVICES"), "EnvNotAllowed",
			`variable NVIDIA_VISIBLE_DEVICES of spec.env is not allowed by template "browser", and not passed to the desktop: the name is reserved; remove it from spec.env, or add it to the template's spec.overridableEnv`},
		{"the password, though it is listed", withEnv("VNC_PW"), "EnvNotAllowed",
			`variable VNC_PW of spec.env is not allowed by template "browser", and not passed to the desktop: the template sets it from a Secret; remove it from spec.env`},
		{"a variable from a Secret", withEnv("LICENSE"), "EnvNotAllowed",
			`variable LICENSE of spec.env is not allowed by template "browser", and not passed to the desktop: the template sets it from a Secret; remove it from spec.env`},
	} {
		t.Run(c.name, func(t *testing.T) {
			fresh := sessiontest.With(func(s *v1alpha1.VDISession) { s.Status.Epoch = 0 }, c.change)
			for _, s := range []*v1alpha1.VDISession{fresh, sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5), c.change)} {
				got := acceptance(s, lockedTemplate(), false, nil)
				if got.Status != metav1.ConditionFalse || got.Reason != c.reason {
					t.Errorf("accepted: %s, %s", got.Status, got.Reason)
				}
				if diff := cmp.Diff(c.message, got.Message); diff != "" {
					t.Errorf("message (-want +got):\n%s", diff)
				}
			}
			want := desktopOf(sessiontest.With(), lockedTemplate())
			if diff := cmp.Diff(want, desktopOf(sessiontest.With(c.change), lockedTemplate())); diff != "" {
				t.Errorf("the user changed the desktop (-template's +got):\n%s", diff)
			}
		})
	}
}

func TestSessionOverridesWhatItsTemplateLists(t *testing.T) {
	for _, c := range []struct {
		name     string
		change   func(*v1alpha1.VDISession)
		template *v1alpha1.TemplateSpec
	}{
		{"a variable that is listed", withEnv("LAUNCH_URL"), lockedTemplate()},
		{"a reserved variable that is listed", withEnv("NVIDIA_DRIVER_CAPABILITIES"), lockedTemplate()},
		{"a variable of its own", withEnv("TZ"), lockedTemplate()},
		{"a file that is listed", withFile("bookmarks.json"), lockedTemplate()},
		{"any file, where the template has none", withFile("zz.json"), &v1alpha1.TemplateSpec{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessiontest.With(c.change)
			if got := acceptance(s, c.template, false, nil); got.Status != metav1.ConditionTrue {
				t.Errorf("not accepted: %s", got.Message)
			}
			d := desktopOf(s, c.template)
			found := false
			for _, e := range d.Env {
				found = found || e.Value == "mine"
			}
			for _, f := range d.Files {
				found = found || f.Content == "{mine}"
			}
			if !found {
				t.Errorf("the desktop lacks what the session sets: %v, %v", d.Env, d.Files)
			}
		})
	}
}
