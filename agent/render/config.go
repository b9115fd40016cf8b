package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// envKey is before the name of a variable in the ConfigMap. No file may be
// named so.
const envKey = "env."

// defaultConfigPath is the directory of the files where the template does not
// say.
const defaultConfigPath = "/etc/vdi/config"

// ConfigMap has the desktop's variables and files; nil if it has neither. The
// Pod takes the variables from it one by one, and mounts it whole for the
// files: so a change of a file reaches a desktop that runs.
func ConfigMap(a *api.SessionAssignment) *corev1.ConfigMap {
	data := configData(a)
	if len(data) == 0 {
		return nil
	}
	return &corev1.ConfigMap{ObjectMeta: ownedMeta(a), Data: data}
}

func configData(a *api.SessionAssignment) map[string]string {
	d := &a.Spec.Desktop
	data := make(map[string]string, len(d.Env)+len(d.Files))
	for _, e := range d.Env {
		data[envKey+e.Name] = e.Value
	}
	for _, f := range d.Files {
		data[f.Name] = f.Content
	}
	return data
}

// ConfigHash is a short hash of the ConfigMap's content; empty if there is
// none.
func ConfigHash(a *api.SessionAssignment) string {
	data := configData(a)
	if len(data) == 0 {
		return ""
	}
	return hashOf(data)
}

// hashOf plain data that always encodes.
func hashOf(data any) string {
	text, err := json.Marshal(data)
	if err != nil {
		// Plain data without maps of interfaces, channels or functions: it
		// can't fail, and a hash that hides a failure would hide a change.
		panic(fmt.Sprintf("encoding what is hashed: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// env is the variables of the config, those that come from secrets, and HOME
// where a home is mounted: the image can't know where the template puts it.
func env(a *api.SessionAssignment) []corev1.EnvVar {
	d := &a.Spec.Desktop
	var out []corev1.EnvVar
	homeSet := false
	for _, e := range d.Env {
		out = append(out, corev1.EnvVar{Name: e.Name, ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: a.Name}, Key: envKey + e.Name,
			},
		}})
		homeSet = homeSet || e.Name == "HOME"
	}
	if d.Access.SecretName != "" && d.Access.PasswordEnv != "" {
		out = append(out, fromSecret(d.Access.PasswordEnv, d.Access.SecretName, corev1.BasicAuthPasswordKey))
	}
	for _, use := range d.Secrets {
		for _, e := range use.Env {
			out = append(out, fromSecret(e.Name, use.Name, e.Key))
		}
	}
	if HasHome(a) && !homeSet {
		out = append(out, corev1.EnvVar{Name: "HOME", Value: homePath(a)})
	}
	return out
}

func fromSecret(variable, secret, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: key},
	}}
}
