package render

import (
	"cmp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// defaultHomePath is the default mount path of a home.
	defaultHomePath = "/home/user"
	// accessPath is the directory of the files username and password.
	accessPath = "/etc/vdi/access"
	// secretMode allows only the desktop's user and group to read the files of a Secret.
	secretMode int32 = 0o440
)

// defaultShm is the size of /dev/shm of a desktop without a memory limit.
var defaultShm = resource.MustParse("256Mi")

// volumes returns the Pod's volumes and mounts: /tmp, /dev/shm, and home, files, access and
// other secrets if there are any.
func volumes(a *api.SessionAssignment) (volumes []corev1.Volume, mounts []corev1.VolumeMount) {
	d := &a.Spec.Desktop
	add := func(name, path string, readOnly bool, source corev1.VolumeSource) {
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: source})
		mounts = append(mounts, corev1.VolumeMount{Name: name, MountPath: path, ReadOnly: readOnly})
	}
	// /tmp is part of the disk space that the desktop may use.
	disk := requirements(d.Resources).Limits[corev1.ResourceEphemeralStorage]
	add("tmp", "/tmp", false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &disk}})
	add("shm", "/dev/shm", false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: shmSize(d)}})
	if HasHome(a) {
		claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: d.Home.ClaimName}
		add("home", homePath(a), false, corev1.VolumeSource{PersistentVolumeClaim: claim})
	}
	if len(d.Files) > 0 {
		config := &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: a.Name}}
		add("config", cmp.Or(d.ConfigMountPath, defaultConfigPath), true, corev1.VolumeSource{ConfigMap: config})
	}
	if d.Access.SecretName != "" {
		add("access", accessPath, true, secretVolume(d.Access.SecretName))
	}
	for i, use := range d.Secrets {
		if use.MountPath != "" {
			add("secret-"+strconv.Itoa(i), use.MountPath, true, secretVolume(use.Name))
		}
	}
	return volumes, mounts
}

func secretVolume(secret string) corev1.VolumeSource {
	return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr.To(secretMode)}}
}

func homePath(a *api.SessionAssignment) string {
	return cmp.Or(a.Spec.Desktop.Home.MountPath, defaultHomePath)
}

// shmSize returns the template's size, or half the memory limit, which is the upper limit:
// files in /dev/shm are charged to the container.
func shmSize(d *api.Desktop) *resource.Quantity {
	memory, limited := d.Resources[corev1.ResourceMemory]
	limited = limited && memory.Value() >= 2
	switch size := d.SharedMemory; {
	case size != nil && size.Sign() > 0 && (!limited || size.Cmp(memory) <= 0):
		return ptr.To(size.DeepCopy())
	case size != nil && size.Sign() > 0:
		return &memory
	case limited:
		return resource.NewQuantity(memory.Value()/2, resource.BinarySI)
	default:
		return ptr.To(defaultShm)
	}
}
