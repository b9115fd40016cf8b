package render

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// defaultHomePath is where a home is mounted whose template does not say.
const defaultHomePath = "/home/user"

// defaultShm is the size of /dev/shm of a desktop without a memory limit.
var defaultShm = resource.MustParse("256Mi")

// volumes of the Pod: /tmp and /dev/shm always, the home where there is one.
func volumes(a *api.SessionAssignment) []corev1.Volume {
	out := []corev1.Volume{
		{Name: tmpVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: shmVolume, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium:    corev1.StorageMediumMemory,
			SizeLimit: shmSize(a.Spec.Desktop.Resources),
		}}},
	}
	if HasHome(a) {
		claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: a.Spec.Desktop.Home.ClaimName}
		out = append(out, corev1.Volume{
			Name:         homeVolume,
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim},
		})
	}
	return out
}

func mounts(a *api.SessionAssignment) []corev1.VolumeMount {
	out := []corev1.VolumeMount{
		{Name: tmpVolume, MountPath: "/tmp"},
		{Name: shmVolume, MountPath: "/dev/shm"},
	}
	if HasHome(a) {
		out = append(out, corev1.VolumeMount{Name: homeVolume, MountPath: homePath(a)})
	}
	return out
}

func homePath(a *api.SessionAssignment) string {
	if p := a.Spec.Desktop.Home.MountPath; p != "" {
		return p
	}
	return defaultHomePath
}

// shmSize is half the memory limit: what lies in /dev/shm is charged to the
// container, so a larger one would only let a desktop kill itself.
func shmSize(resources corev1.ResourceList) *resource.Quantity {
	memory, limited := resources[corev1.ResourceMemory]
	if !limited || memory.Value() < 2 {
		size := defaultShm
		return &size
	}
	return resource.NewQuantity(memory.Value()/2, resource.BinarySI)
}
