package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// HomeSpec defines the owner and the location of a home. The hub writes it before it
// sends the first assignment that needs the home; from then on the user's sessions of
// that template are placed in this member.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.size) || (has(self.size) && quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0)",message="must not decrease: a volume cannot shrink",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (isQuantity(string(self.size)) && quantity(string(self.size)).isGreaterThan(quantity('0')))",message="must be a quantity greater than zero, such as 20Gi",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="self.generation >= oldSelf.generation",message="must not decrease",fieldPath=".generation"
// +kubebuilder:validation:XValidation:rule="self.generation > oldSelf.generation || (self.clusterName == oldSelf.clusterName && self.clusterUID == oldSelf.clusterUID && self.claimName == oldSelf.claimName)",message="a home cannot move: only a fresh home, of a higher generation, may be in another member"
type HomeSpec struct {
	// user who owns the home.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="user is immutable"
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user"`
	// template is the name of the VDITemplate of the home.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="template is immutable"
	// +kubebuilder:validation:MaxLength=63
	Template string `json:"template"`
	// clusterName is the name of the MemberCluster that holds the home.
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName"`
	// clusterUID is the UID of that MemberCluster.
	ClusterUID types.UID `json:"clusterUID"`
	// claimName is the name of the PersistentVolumeClaim in the member.
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
	// generation of the home, from 1. A session with spec.freshHome raises it.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation"`
	// size of the volume, as requested.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
	// retentionTime is how long the home is kept after its last use. Absent means no
	// limit.
	// +optional
	RetentionTime Duration `json:"retentionTime,omitempty"`
}

// HomeStatus is the observed use of a home.
type HomeStatus struct {
	// mountedBy is the name of the session that may write to the home, and mountedByUID
	// its UID. No other session may mount the home until this one is confirmed stopped.
	// +optional
	MountedBy string `json:"mountedBy,omitempty"`
	// +optional
	MountedByUID types.UID `json:"mountedByUID,omitempty"`
	// lastUseTime is when a session last claimed or released the home.
	// +optional
	LastUseTime *metav1.Time `json:"lastUseTime,omitempty"`
	// leftBehind lists the claims of earlier generations, which no session mounts any
	// more and which still exist.
	// +optional
	// +listType=map
	// +listMapKey=claimName
	// +kubebuilder:validation:MaxItems=64
	LeftBehind []LeftBehindHome `json:"leftBehind,omitempty"`
}

// LeftBehindHome is a claim that a fresh home has replaced.
type LeftBehindHome struct {
	// claimName is the name of the PersistentVolumeClaim in the member.
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
	// clusterName and clusterUID identify the member that holds it.
	// +kubebuilder:validation:MaxLength=253
	ClusterName string    `json:"clusterName"`
	ClusterUID  types.UID `json:"clusterUID"`
	// time at which the fresh home was created.
	Time metav1.Time `json:"time"`
}

// VDIHome records which member holds a user's home. It has no status subresource: only
// the hub writes it, and spec and status must become durable in one write.
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

// VDIHomeList is a list of VDIHomes.
//
// +kubebuilder:object:root=true
type VDIHomeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VDIHome `json:"items"`
}
