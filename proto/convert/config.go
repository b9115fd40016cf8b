package convert

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// payloadToWire converts every secret that the spec names, with its data if the payload has it.
func payloadToWire(references []v1alpha1.SecretReference, payload []v1alpha1.SecretPayload) []*fleetv1.Secret {
	byName := make(map[string]*v1alpha1.SecretPayload, len(payload))
	for i := range payload {
		byName[payload[i].Name] = &payload[i]
	}
	out := make([]*fleetv1.Secret, 0, len(references))
	for _, r := range references {
		w := &fleetv1.Secret{Name: r.Name, Version: r.Version}
		if p := byName[r.Name]; p != nil && p.Version == r.Version {
			w.Type, w.Data = string(p.Type), p.Data
		}
		out = append(out, w)
	}
	return nilIfEmpty(out)
}

// payloadFromWire converts the secrets of an assignment: the references of its spec, and
// those that have data.
func payloadFromWire(w []*fleetv1.Secret) ([]v1alpha1.SecretReference, []v1alpha1.SecretPayload, error) {
	references := make([]v1alpha1.SecretReference, 0, len(w))
	var payload []v1alpha1.SecretPayload
	for i, s := range w {
		if s.GetName() == "" || s.GetVersion() == "" {
			return nil, nil, fmt.Errorf("secrets[%d]: name or version is missing", i)
		}
		references = append(references, v1alpha1.SecretReference{Name: s.GetName(), Version: s.GetVersion()})
		if len(s.GetData()) > 0 {
			payload = append(payload, v1alpha1.SecretPayload{
				Name: s.GetName(), Version: s.GetVersion(), Type: corev1.SecretType(s.GetType()), Data: s.GetData(),
			})
		}
	}
	return nilIfEmpty(references), payload, nil
}

func filesToWire(list []v1alpha1.ConfigFile) []*fleetv1.ConfigFile {
	out := make([]*fleetv1.ConfigFile, 0, len(list))
	for _, f := range list {
		out = append(out, &fleetv1.ConfigFile{Name: f.Name, Content: f.Content})
	}
	return nilIfEmpty(out)
}

func filesFromWire(w []*fleetv1.ConfigFile) []v1alpha1.ConfigFile {
	out := make([]v1alpha1.ConfigFile, 0, len(w))
	for _, f := range w {
		out = append(out, v1alpha1.ConfigFile{Name: f.GetName(), Content: f.GetContent()})
	}
	return nilIfEmpty(out)
}

func usesToWire(list []v1alpha1.SecretUse) []*fleetv1.SecretUse {
	out := make([]*fleetv1.SecretUse, 0, len(list))
	for _, u := range list {
		w := &fleetv1.SecretUse{Name: u.Name, MountPath: u.MountPath}
		for _, e := range u.Env {
			w.Env = append(w.Env, &fleetv1.SecretEnvVar{Name: e.Name, Key: e.Key})
		}
		out = append(out, w)
	}
	return nilIfEmpty(out)
}

func usesFromWire(w []*fleetv1.SecretUse) []v1alpha1.SecretUse {
	out := make([]v1alpha1.SecretUse, 0, len(w))
	for _, u := range w {
		use := v1alpha1.SecretUse{Name: u.GetName(), MountPath: u.GetMountPath()}
		for _, e := range u.GetEnv() {
			use.Env = append(use.Env, v1alpha1.SecretEnvVar{Name: e.GetName(), Key: e.GetKey()})
		}
		out = append(out, use)
	}
	return nilIfEmpty(out)
}
