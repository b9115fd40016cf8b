package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// HomeSpec is whose home it is and where it is. The hub writes it before
// the first assignment that needs it, and it then pins the user's sessions of
// that template to the member.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.size) || (has(self.size) && quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0)",message="a size never shrinks: a volume cannot be made smaller",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (isQuantity(string(self.size)) && quantity(string(self.size)).isGreaterThan(quantity('0')))",message="must be a quantity above zero, such as 20Gi",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="self.generation >= oldSelf.generation",message="a generation never falls",fieldPath=".generation"
// +kubebuilder:validation:XValidation:rule="self.generation > oldSelf.generation || (self.clusterName == oldSelf.clusterName && self.clusterUID == oldSelf.clusterUID && self.claimName == oldSelf.claimName)",message="a home does not move: only a fresh one, of a higher generation, may lie elsewhere"
type HomeSpec struct {
	// User that the home belongs to.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="user is immutable"
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user"`
	// Template that the home is for.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="template is immutable"
	// +kubebuilder:validation:MaxLength=63
	Template string `json:"template"`
	// ClusterName is the member that holds it.
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName"`
	// ClusterUID is the UID of that MemberCluster.
	ClusterUID types.UID `json:"clusterUID"`
	// ClaimName is the PersistentVolumeClaim in the member.
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
	// Generation of the home: it grows when a session asked for a fresh one.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation"`
	// Size that was asked for.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// RetentionTime is how long the home is kept after its last use; absent: for
	// good.
	// +optional
	RetentionTime Duration `json:"retentionTime,omitempty"`
}

// HomeStatus is who uses the home.
type HomeStatus struct {
	// MountedBy is the session that may write to it now, and MountedByUID its
	// UID. No other gets the home until this one is confirmed stopped.
	// +optional
	MountedBy string `json:"mountedBy,omitempty"`
	// +optional
	MountedByUID types.UID `json:"mountedByUID,omitempty"`
	// LastUseTime is when it was last given to a session or given back.
	// +optional
	LastUseTime *metav1.Time `json:"lastUseTime,omitempty"`
	// LeftBehind are claims of earlier generations, which nobody mounts any more
	// and nobody has deleted.
	// +optional
	// +listType=map
	// +listMapKey=claimName
	// +kubebuilder:validation:MaxItems=64
	LeftBehind []LeftBehindHome `json:"leftBehind,omitempty"`
}

// LeftBehindHome is a claim that a fresh home has taken the place of.
type LeftBehindHome struct {
	// ClaimName of the PersistentVolumeClaim in the member.
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
	// ClusterName and ClusterUID of the member that has it.
	// +kubebuilder:validation:MaxLength=253
	ClusterName string    `json:"clusterName"`
	ClusterUID  types.UID `json:"clusterUID"`
	// Time when the fresh one was made.
	Time metav1.Time `json:"time"`
}

// VDIHome is the record of a user's home: which member holds it. Its status is
// no subresource: the hub alone writes the record, and what it says must become
// durable in one write.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=vdih,categories=vdi
// +kubebuilder:selectablefield:JSONPath=`.spec.user`
// +kubebuilder:selectablefield:JSONPath=`.spec.template`
// +kubebuilder:selectablefield:JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="Mounted-By",type=string,JSONPath=`.status.mountedBy`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.spec.size`
// +kubebuilder:printcolumn:name="Last-Use",type=date,JSONPath=`.status.lastUseTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type VDIHome struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   HomeSpec   `json:"spec"`
	Status HomeStatus `json:"status,omitempty"`
}

// VDIHomeList is a list of homes.
//
// +kubebuilder:object:root=true
type VDIHomeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VDIHome `json:"items"`
}
