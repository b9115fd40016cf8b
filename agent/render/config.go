package render

import (
	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// envKeyPrefix is the prefix of a variable's key in the ConfigMap, which no file name has.
	envKeyPrefix = "env."
	// defaultConfigPath is the default mount path of files.
	defaultConfigPath = "/etc/vdi/config"
)

// ConfigMap returns the variables and files of the desktop, and nil if it has neither.
//
// The Pod refers to the variables and mounts the ConfigMap as the directory of files, so
// that files change while the desktop runs. The directory shows the variables too.
func ConfigMap(a *api.SessionAssignment) *corev1.ConfigMap {
	d := &a.Spec.Desktop
	if len(d.Env) == 0 && len(d.Files) == 0 {
		return nil
	}
	config := &corev1.ConfigMap{ObjectMeta: ownedMeta(a), Data: map[string]string{}}
	for _, e := range d.Env {
		config.Data[envKeyPrefix+e.Name] = e.Value
	}
	for _, f := range d.Files {
		config.Data[f.Name] = f.Content
	}
	return config
}
