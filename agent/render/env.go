package render

import (
	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// passwordKey of an access secret, as of any Secret of type
// kubernetes.io/basic-auth.
const passwordKey = corev1.BasicAuthPasswordKey

// env returns the desktop's environment: the password where the template wants it
// there, what it takes from Secrets, the variables of template and session, and
// HOME where a home is mounted, since the image can't know where the template
// puts it. Of two with one name the first holds: no plain variable takes the
// place of a secret one.
func env(a *api.SessionAssignment) []corev1.EnvVar {
	d := &a.Spec.Desktop
	var out []corev1.EnvVar
	taken := map[string]bool{}
	add := func(e corev1.EnvVar) {
		if !taken[e.Name] {
			taken[e.Name] = true
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
		add(corev1.EnvVar{Name: e.Name, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: a.Name}, Key: envKey + e.Name,
		}}})
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
