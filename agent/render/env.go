package render

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// passwordKey is the key of an access secret's password.
const passwordKey = corev1.BasicAuthPasswordKey

// env returns the desktop's environment: the password if the template requests it, variables
// from Secrets, those of template and session, and HOME if a home is mounted. Of two with
// the same name the first is used, so that no plain variable replaces a secret one.
func env(a *api.SessionAssignment) []corev1.EnvVar {
	d := &a.Spec.Desktop
	var out []corev1.EnvVar
	add := func(e corev1.EnvVar) {
		if !slices.ContainsFunc(out, func(first corev1.EnvVar) bool { return first.Name == e.Name }) {
			out = append(out, e)
		}
	}
	if d.Access.SecretName != "" && d.Access.PasswordEnv != "" {
		add(fromSecret(d.Access.PasswordEnv, d.Access.SecretName, passwordKey))
	}
	for _, use := range d.Secrets {
		for _, e := range use.Env {
			add(fromSecret(e.Name, use.Name, e.Key))
		}
	}
	for _, e := range d.Env {
		// Kubernetes would expand $(NAME) in a value, and reads $$ as $.
		add(corev1.EnvVar{Name: e.Name, Value: strings.ReplaceAll(e.Value, "$", "$$")})
	}
	if HasHome(a) {
		add(corev1.EnvVar{Name: "HOME", Value: homePath(a)})
	}
	return out
}

func fromSecret(name, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key,
	}}}
}
