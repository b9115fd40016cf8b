package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// HomeMode defines whether a desktop has a volume, and its lifetime.
//
// +kubebuilder:validation:Enum=None;PerSession;PerUser
type HomeMode string

// The home modes.
const (
	// HomeNone: no volume; data is lost with the session.
	HomeNone HomeMode = "None"
	// HomePerSession: one volume per session.
	HomePerSession HomeMode = "PerSession"
	// HomePerUser: one volume per user of the template in a namespace, which outlives
	// sessions.
	HomePerUser HomeMode = "PerUser"
)

// TemplateHome is the volume of a desktop.
//
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode == 'None' || has(self.size)",message="size is required with mode PerSession or PerUser"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (has(self.mode) && self.mode != 'None')",message="size requires mode PerSession or PerUser: with mode None there is no volume",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (isQuantity(string(self.size)) && quantity(string(self.size)).isGreaterThan(quantity('0')))",message="must be a quantity greater than zero, such as 20Gi",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'PerUser' || !has(oldSelf.mode) || oldSelf.mode != 'PerUser' || !has(self.size) || !has(oldSelf.size) || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",message="must not decrease with mode PerUser: existing volumes cannot shrink",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.retention) || self.retention != 'Delete' || !has(self.mode) || self.mode != 'PerUser'",message="must not be Delete with mode PerUser, whose homes outlive sessions: leave it out, and set retentionTime to delete unused homes",fieldPath=".retention"
// +kubebuilder:validation:XValidation:rule="!has(self.retentionTime) || (has(self.mode) && (self.mode == 'PerUser' || (has(self.retention) && self.retention == 'Retain')))",message="requires a home that is retained: set retention to Retain",fieldPath=".retentionTime"
type TemplateHome struct {
	// mode of the home. None: no volume. PerSession: a volume for each session. PerUser:
	// a volume for each user of the template in a namespace, which outlives sessions, and
	// which only one session mounts at a time. Defaults to None.
	// +optional
	// +kubebuilder:default=None
	Mode HomeMode `json:"mode,omitempty"`
	// size of the volume. Required with mode PerSession and PerUser. It cannot decrease
	// with mode PerUser.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// storageClassName is the name of the StorageClass in the member. Defaults to the
	// member's default StorageClass.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a StorageClass"
	StorageClassName string `json:"storageClassName,omitempty"`
	// accessMode of the volume. Defaults to ReadWriteOnce.
	// +optional
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteOncePod;ReadWriteMany
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
	// retention defines what happens to the volume after its last use: Delete, or Retain
	// for retentionTime. Defaults to Delete with mode PerSession and to Retain with mode
	// PerUser, which does not allow Delete.
	// +optional
	Retention Retention `json:"retention,omitempty"`
	// retentionTime is how long a retained volume is kept after its last use, by the
	// member's clock. Defaults to no limit.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hms]+$') || self.matches('[1-9]')",message="must be longer than zero; leave it out to keep the volume for good"
	RetentionTime Duration `json:"retentionTime,omitempty"`
	// mountPath is the absolute path of the volume in the desktop. Defaults to
	// /home/user.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9_.][-A-Za-z0-9_./]*$') && !self.contains('..')",message="must be an absolute path below /, without .."
	MountPath string `json:"mountPath,omitempty"`
}
