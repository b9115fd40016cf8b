package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// HomeMode is whether a desktop has a volume of its own, and for how long.
//
// +kubebuilder:validation:Enum=None;PerSession;PerUser
type HomeMode string

// The home modes.
const (
	// HomeNone: no volume, what is written is lost with the session.
	HomeNone HomeMode = "None"
	// HomePerSession: a volume that goes with the session.
	HomePerSession HomeMode = "PerSession"
	// HomePerUser: one volume for each user of the template in a namespace,
	// which outlives the session.
	HomePerUser HomeMode = "PerUser"
)

// TemplateHome is the volume of a desktop.
//
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode == 'None' || has(self.size)",message="a size is required with mode PerSession or PerUser"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (has(self.mode) && self.mode != 'None')",message="a size asks for a home: set mode to PerSession or PerUser, or nothing is kept",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (isQuantity(string(self.size)) && quantity(string(self.size)).isGreaterThan(quantity('0')))",message="must be a quantity above zero, such as 20Gi",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.mode) || self.mode != 'PerUser' || !has(oldSelf.mode) || oldSelf.mode != 'PerUser' || !has(self.size) || !has(oldSelf.size) || quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0",message="a size never shrinks while mode is PerUser: the volumes that users have cannot be made smaller",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.retention) || self.retention != 'Delete' || !has(self.mode) || self.mode != 'PerUser'",message="a user's home outlives the session: leave retention out, and give a retentionTime if an unused home is to go",fieldPath=".retention"
// +kubebuilder:validation:XValidation:rule="!has(self.retentionTime) || (has(self.mode) && (self.mode == 'PerUser' || (has(self.retention) && self.retention == 'Retain')))",message="a retentionTime is for homes that are retained: set retention to Retain",fieldPath=".retentionTime"
type TemplateHome struct {
	// Mode says whose volume it is and how long it lives.
	// +optional
	// +kubebuilder:default=None
	Mode HomeMode `json:"mode,omitempty"`
	// Size of the volume.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// StorageClassName in the member; absent: its default class.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be the name of a StorageClass"
	StorageClassName string `json:"storageClassName,omitempty"`
	// AccessMode of the volume, by default ReadWriteOnce.
	// +optional
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteOncePod;ReadWriteMany
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`
	// Retention is what becomes of the volume after its last use: by default
	// Delete of a PerSession home and Retain of a PerUser home.
	// +optional
	Retention Retention `json:"retention,omitempty"`
	// RetentionTime is how long a retained volume is kept after its last use, by
	// the member's clock; absent: for good.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9.hms]+$') || self.matches('[1-9]')",message="must be longer than zero; leave it out to keep the volume for good"
	RetentionTime Duration `json:"retentionTime,omitempty"`
	// MountPath in the desktop, by default /home/user.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9_.][-A-Za-z0-9_./]*$') && !self.contains('..')",message="must be an absolute path below /, without .."
	MountPath string `json:"mountPath,omitempty"`
}
