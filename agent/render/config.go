package render

import (
	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// envKey begins the key of a variable in the ConfigMap. No file has such a
	// name.
	envKey = "env."
	// defaultConfigPath is where the files are whose template does not say.
	defaultConfigPath = "/etc/vdi/config"
)

// ConfigMap returns the variables and files of the desktop, and nil if it has neither.
//
// The Pod refers to the variables, and mounts the whole of it as the directory
// of files: so files come, change and go while the desktop runs. The directory
// shows the variables too, which are the desktop's anyway.
func ConfigMap(a *api.SessionAssignment) *corev1.ConfigMap {
	d := &a.Spec.Desktop
	if len(d.Env) == 0 && len(d.Files) == 0 {
		return nil
	}
	config := &corev1.ConfigMap{ObjectMeta: ownedMeta(a), Data: map[string]string{}}
	for _, e := range d.Env {
		config.Data[envKey+e.Name] = e.Value
	}
	for _, f := range d.Files {
		config.Data[f.Name] = f.Content
	}
	return config
}
