package render

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// defaultHomePath is where a home is mounted whose template does not say.
	defaultHomePath = "/home/user"
	// accessPath is the directory with the files username and password.
	accessPath = "/etc/vdi/access"
	// secretMode lets the desktop's group read a secret, and nobody write it.
	secretMode = 0o440
)

// defaultShm is the size of /dev/shm of a desktop without a memory limit.
var defaultShm = resource.MustParse("256Mi")

// mounted is a volume and where the desktop finds it.
type mounted struct {
	volume corev1.Volume
	mount  corev1.VolumeMount
}

// mounts of the desktop: /tmp and /dev/shm always; home, files and secrets
// where there are any.
func mounts(a *api.SessionAssignment) []mounted {
	d := &a.Spec.Desktop
	out := []mounted{
		mount(tmpVolume, "/tmp", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		mount(shmVolume, "/dev/shm", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: shmSize(d),
		}}),
	}
	if HasHome(a) {
		claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: d.Home.ClaimName}
		out = append(out, mount(homeVolume, homePath(a), corev1.VolumeSource{PersistentVolumeClaim: claim}))
	}
	if len(d.Files) > 0 {
		source := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: a.Name}}
		out = append(out, readOnly(mount(configVolume, orDefault(d.ConfigMountPath, defaultConfigPath), corev1.VolumeSource{ConfigMap: source})))
	}
	if name := d.Access.SecretName; name != "" {
		out = append(out, readOnly(mount(accessVolume, accessPath, secretSource(name))))
	}
	for i, use := range d.Secrets {
		if use.MountPath != "" {
			out = append(out, readOnly(mount(fmt.Sprintf("secret-%d", i), use.MountPath, secretSource(use.Name))))
		}
	}
	return out
}

func mount(name, path string, source corev1.VolumeSource) mounted {
	return mounted{
		volume: corev1.Volume{Name: name, VolumeSource: source},
		mount:  corev1.VolumeMount{Name: name, MountPath: path},
	}
}

func readOnly(m mounted) mounted {
	m.mount.ReadOnly = true
	return m
}

func secretSource(name string) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: ptr.To[int32](secretMode)}}
}

func homePath(a *api.SessionAssignment) string {
	return orDefault(a.Spec.Desktop.Home.MountPath, defaultHomePath)
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// shmSize is what the template says, or half the memory limit; never more than
// the limit: what lies in /dev/shm is charged to the container, so a larger one
// would only let a desktop kill itself.
func shmSize(d *api.Desktop) *resource.Quantity {
	memory, limited := d.Resources[corev1.ResourceMemory]
	limited = limited && memory.Value() >= 2
	switch {
	case d.SharedMemory != nil && limited && d.SharedMemory.Cmp(memory) > 0:
		return ptr.To(memory.DeepCopy())
	case d.SharedMemory != nil:
		return ptr.To(d.SharedMemory.DeepCopy())
	case limited:
		return resource.NewQuantity(memory.Value()/2, resource.BinarySI)
	default:
		return ptr.To(defaultShm.DeepCopy())
	}
}
