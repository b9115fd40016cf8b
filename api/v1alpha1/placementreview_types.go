package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PlacementReviewSpec asks the hub where a session would go now. Nothing is
// placed and no capacity is reserved.
//
// +kubebuilder:validation:XValidation:rule="has(self.sessionName) != has(self.session)",message="give sessionName, of a session that there is, or session, as one would be created"
type PlacementReviewSpec struct {
	// SessionName of a session in this namespace. One that is placed is evaluated
	// as if it were to be rescheduled, its own reservation not counted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SessionName string `json:"sessionName,omitempty"`
	// Session as it would be created in this namespace.
	// +optional
	Session *SessionSpec `json:"session,omitempty"`
	// Labels of such a session, by which policies match.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`
	// Count of sessions like it, placed one after the other.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=1
	Count int32 `json:"count,omitempty"`
	// DistinctUsers: every one of the count is of a user of his own. Without it
	// all are of the same user: the second waits for a home that the first has,
	// and caps per user count them all.
	// +optional
	DistinctUsers bool `json:"distinctUsers,omitempty"`
}

// PlacementReviewStatus is the hub's answer.
type PlacementReviewStatus struct {
	// ReviewTime is when it was answered; absent: not yet.
	// +optional
	ReviewTime *metav1.Time `json:"reviewTime,omitempty"`
	// Reason and Message are what the condition Accepted would say of a session
	// that may not be placed as it is, and otherwise what the condition
	// Scheduled would say: of the first that fits nowhere, if there is one.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// Policy that governs it; absent: none governs it.
	// +optional
	Policy string `json:"policy,omitempty"`
	// Placed is how many of the count would be placed now, and Waiting the rest.
	// +optional
	Placed int32 `json:"placed,omitempty"`
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// Unasked is how many of the count were left out, since the time that the
	// hub gives to a review was over.
	// +optional
	Unasked int32 `json:"unasked,omitempty"`
	// Clusters is what became of every member, the best first.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Clusters []ClusterVerdict `json:"clusters,omitempty"`
	// OmittedClusters is how many more there are than are listed: at most 256
	// are, those that sessions go to and those that fit before others.
	// +optional
	OmittedClusters int32 `json:"omittedClusters,omitempty"`
}

// ClusterVerdict is what became of a member in a review.
type ClusterVerdict struct {
	// ClusterName, ClusterUID and Region of the member.
	ClusterName string    `json:"clusterName"`
	ClusterUID  types.UID `json:"clusterUID"`
	// +optional
	Region string `json:"region,omitempty"`
	// Fits: the first of the count may be placed there.
	Fits bool `json:"fits"`
	// Rank among those that fit, from 1.
	// +optional
	Rank int32 `json:"rank,omitempty"`
	// Filter that it fails, by name.
	// +optional
	Filter string `json:"filter,omitempty"`
	// Message states why it fails, with what would help, or what capacity it has.
	// +optional
	Message string `json:"message,omitempty"`
	// Slots left for it, with reservations and headroom left aside.
	// +optional
	Slots int64 `json:"slots,omitempty"`
	// Scores in the order in which they decide: the lower the better.
	// +optional
	// +listType=atomic
	Scores []PlacementScore `json:"scores,omitempty"`
	// CapacityAge is how old the report is that it was evaluated by; absent: it has
	// made none.
	// +optional
	CapacityAge Duration `json:"capacityAge,omitempty"`
	// Sessions of the count that would go there, each in the capacity that those
	// before it leave.
	// +optional
	Sessions int32 `json:"sessions,omitempty"`
}

// PlacementScore is one of the numbers that rank a member.
type PlacementScore struct {
	// Name of the score.
	Name string `json:"name"`
	// Value as text, exact: a whole number or a fraction.
	Value string `json:"value"`
}

// PlacementReview asks where a session would go, and why, without placing
// anything. Who may create one in a namespace may see the members' verdicts. The
// hub answers in the status and deletes it ten minutes later.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=vdipr,categories=vdi
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="a review is asked once: create another"
// +kubebuilder:printcolumn:name="Placed",type=integer,JSONPath=`.status.placed`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PlacementReview struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PlacementReviewSpec   `json:"spec"`
	Status PlacementReviewStatus `json:"status,omitempty"`
}

// PlacementReviewList is a list of reviews.
//
// +kubebuilder:object:root=true
type PlacementReviewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlacementReview `json:"items"`
}
