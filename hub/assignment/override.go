package assignment

import (
	"slices"
	"strings"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// A template's variables and files are locked against its sessions' unless it lists the
// names as overridable. An additional file may undo locked ones, for example in a directory
// of browser policies, so a template with files accepts no others.

// Reserved variables change the devices of a container, the code that runs before a
// program's own, or what the fleet sets.
var (
	reservedPrefixes = []string{"LD_", "NVIDIA_", "KUBERNETES_", "VDI_"}
	reservedSuffix   = "_VISIBLE_DEVICES"
	reservedNames    = []string{
		"PATH", "GLIBC_TUNABLES", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND",
		"PYTHONSTARTUP", "PYTHONPATH", "PYTHONHOME", "PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "NODE_OPTIONS",
		"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS",
	}
)

func reserved(name string) bool {
	return strings.HasSuffix(name, reservedSuffix) || slices.Contains(reservedNames, name) ||
		slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// EnvRefused returns why a template does not accept a variable of its sessions, or "". It
// ignores case: programs read both http_proxy and HTTP_PROXY.
func EnvRefused(t *v1alpha1.TemplateSpec, name string) string {
	same := func(other string) bool { return strings.EqualFold(other, name) }
	fromSecret := t.Access.PasswordEnv != "" && same(t.Access.PasswordEnv) || slices.ContainsFunc(t.Secrets, func(use v1alpha1.SecretUse) bool {
		return slices.ContainsFunc(use.Env, func(e v1alpha1.SecretEnvVar) bool { return same(e.Name) })
	})
	switch {
	case fromSecret:
		return "the template sets it from a Secret"
	case slices.ContainsFunc(t.OverridableEnv, same):
		return ""
	case slices.ContainsFunc(t.Env, func(e v1alpha1.EnvVar) bool { return same(e.Name) }):
		return "the template sets it"
	case reserved(name):
		return "the name is reserved"
	}
	return ""
}

// FileRefused reports whether a template does not accept a file of its sessions.
func FileRefused(t *v1alpha1.TemplateSpec, name string) bool {
	return len(t.Files) > 0 && !slices.Contains(t.OverridableFiles, name)
}

// sessionEnv returns the variables of a session that its template accepts.
func sessionEnv(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) []v1alpha1.EnvVar {
	return slices.DeleteFunc(slices.Clone(s.Spec.Env), func(e v1alpha1.EnvVar) bool { return EnvRefused(t, e.Name) != "" })
}

// sessionFiles returns the files of a session that its template accepts.
func sessionFiles(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec) []v1alpha1.ConfigFile {
	return slices.DeleteFunc(slices.Clone(s.Spec.Files), func(f v1alpha1.ConfigFile) bool { return FileRefused(t, f.Name) })
}
