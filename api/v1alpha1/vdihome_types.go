package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// HomeSpec is whose home it is and where it lies. The hub writes it before
// the first assignment that needs it, and it then pins the user's sessions of
// that template to the member.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.size) || (has(self.size) && quantity(string(self.size)).compareTo(quantity(string(oldSelf.size))) >= 0)",message="a size never shrinks: a volume cannot be made smaller",fieldPath=".size"
// +kubebuilder:validation:XValidation:rule="!has(self.size) || (isQuantity(string(self.size)) && quantity(string(self.size)).isGreaterThan(quantity('0')))",message="must be a quantity above zero, such as 20Gi",fieldPath=".size"
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
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterName is immutable: a home does not move"
	// +kubebuilder:validation:MaxLength=253
	ClusterName string `json:"clusterName"`
	// ClusterUID is the UID of that MemberCluster.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterUID is immutable: a home does not move"
	ClusterUID types.UID `json:"clusterUID"`
	// ClaimName is the PersistentVolumeClaim in the member.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="claimName is immutable"
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
	// Size that was asked for.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`
}

// HomeStatus is who uses the home.
type HomeStatus struct {
	// MountedBy is the session that may write to it now.
	// +optional
	MountedBy string `json:"mountedBy,omitempty"`
	// LastUseTime is when it was last given to a session.
	// +optional
	LastUseTime *metav1.Time `json:"lastUseTime,omitempty"`
}

// VDIHome is the record of a user's home: which member holds it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vdih,categories=vdi
// +kubebuilder:selectablefield:JSONPath=`.spec.user`
// +kubebuilder:selectablefield:JSONPath=`.spec.template`
// +kubebuilder:selectablefield:JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.spec.template`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
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
