package render

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// defaultHomeSize is the size of a home whose template names none.
var defaultHomeSize = resource.MustParse("10Gi")

// HasHome reports whether the desktop has a volume of its own.
func HasHome(a *api.SessionAssignment) bool {
	mode := a.Spec.Desktop.Home.Mode
	return mode == api.HomePerSession || mode == api.HomePerUser
}

// Home returns the claim of the desktop's home, or nil if it has none. It has no owner. A
// PerUser claim does not depend on the assignment, since all sessions of the user share it.
func Home(a *api.SessionAssignment) *corev1.PersistentVolumeClaim {
	if !HasHome(a) {
		return nil
	}
	home := a.Spec.Desktop.Home
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: homeMeta(a),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{cmp.Or(home.AccessMode, corev1.ReadWriteOnce)},
			StorageClassName: optional(home.StorageClassName),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: ptr.Deref(home.Size, defaultHomeSize)},
			},
		},
	}
}

func homeMeta(a *api.SessionAssignment) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Namespace:   a.Namespace,
		Name:        a.Spec.Desktop.Home.ClaimName,
		Labels:      map[string]string{api.LabelManagedBy: api.ManagedBy},
		Annotations: map[string]string{AnnotationUser: a.Spec.User},
	}
	if a.Spec.Desktop.Home.Mode == api.HomePerSession {
		meta.Labels = Selector(a)
		meta.Annotations[api.AnnotationSession] = a.Spec.Session.Namespace + "/" + a.Spec.Session.Name
	}
	if keep := a.Spec.Desktop.Home.RetentionTime; keep != "" && (a.Spec.Desktop.Home.Mode != api.HomePerSession || a.Spec.Desktop.Home.Retention == api.RetentionRetain) {
		meta.Annotations[api.AnnotationRetention] = string(keep)
	}
	meta.Labels[LabelHomeMode] = string(a.Spec.Desktop.Home.Mode)
	return meta
}

// optional returns nil for "", which in the API means the default.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
