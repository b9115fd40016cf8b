package render

import (
	corev1 "k8s.io/api/core/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// defaultConfigPath is the default mount path of files.
const defaultConfigPath = "/etc/vdi/config"

// ConfigMap returns the files of the desktop, and nil if it has none. The Pod mounts it as a
// directory, so that files change while the desktop runs.
func ConfigMap(a *api.SessionAssignment) *corev1.ConfigMap {
	if len(a.Spec.Desktop.Files) == 0 {
		return nil
	}
	config := &corev1.ConfigMap{ObjectMeta: ownedMeta(a), Data: map[string]string{}}
	for _, f := range a.Spec.Desktop.Files {
		config.Data[f.Name] = f.Content
	}
	return config
}
