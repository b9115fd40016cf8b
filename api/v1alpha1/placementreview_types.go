package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PlacementReviewSpec describes a dry run of the placement: nothing is placed and no
// capacity is reserved.
//
// +kubebuilder:validation:XValidation:rule="has(self.sessionName) != has(self.session)",message="set either sessionName, for an existing session, or session, for a new one"
type PlacementReviewSpec struct {
	// sessionName is the name of an existing session in this namespace. A placed session
	// is evaluated as if it were rescheduled, without its own reservation. Set either
	// sessionName or session.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SessionName string `json:"sessionName,omitempty"`
	// session is the spec of a session as it would be created in this namespace.
	// +optional
	Session *SessionSpec `json:"session,omitempty"`
	// labels of that session, by which policies match it.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`
	// count is how many such sessions are placed one after the other, from 1 to 10000.
	// Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=1
	Count int32 `json:"count,omitempty"`
	// distinctUsers gives each of these sessions a different user. Otherwise they all
	// have the same user: session caps per user count them together, and the second waits
	// for the home that the first has mounted.
	// +optional
	DistinctUsers bool `json:"distinctUsers,omitempty"`
}

// PlacementReviewStatus is the result of the dry run.
type PlacementReviewStatus struct {
	// reviewTime is when the hub computed the result. Absent until then.
	// +optional
	ReviewTime *metav1.Time `json:"reviewTime,omitempty"`
	// reason and message are those of the condition Accepted of a session that is not
	// accepted, else those of the condition Scheduled: of the first session that no
	// member fits, if there is one.
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
	// policy is the name of the governing PlacementPolicy. Absent if there is none.
	// +optional
	Policy string `json:"policy,omitempty"`
	// placed is the number of sessions that would be placed now.
	// +optional
	Placed int32 `json:"placed,omitempty"`
	// placedProvisioning is how many of these would wait for nodes that are being added.
	// +optional
	PlacedProvisioning int32 `json:"placedProvisioning,omitempty"`
	// placedGrowable is how many of these would wait for nodes that must be added first.
	// +optional
	PlacedGrowable int32 `json:"placedGrowable,omitempty"`
	// waiting is the number of sessions that would be pending.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// notTried is the number of sessions that were not evaluated within the time limit of
	// a review.
	// +optional
	NotTried int32 `json:"notTried,omitempty"`
	// clusters lists the result for each member, the best first. At most 256.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=atomic
	Clusters []ClusterVerdict `json:"clusters,omitempty"`
	// omittedClusters is the number of members that are not listed. Members that sessions
	// would be placed in, and then members that fit, are listed before others.
	// +optional
	OmittedClusters int32 `json:"omittedClusters,omitempty"`
}

// ClusterVerdict is the result of a review for one member.
type ClusterVerdict struct {
	// clusterName, clusterUID and region of the member.
	ClusterName string    `json:"clusterName"`
	ClusterUID  types.UID `json:"clusterUID"`
	// +optional
	Region string `json:"region,omitempty"`
	// fits is true if the first session may be placed in the member.
	Fits bool `json:"fits"`
	// rank among the members that fit, from 1.
	// +optional
	Rank int32 `json:"rank,omitempty"`
	// filter that the member fails, by name.
	// +optional
	Filter string `json:"filter,omitempty"`
	// message states why the member fails and the remedy, or its free capacity.
	// +optional
	Message string `json:"message,omitempty"`
	// slots is the free capacity for such sessions, without reservations and headroom.
	// +optional
	Slots int64 `json:"slots,omitempty"`
	// growable is how many of these slots are on nodes that its node groups may still add.
	// +optional
	Growable int64 `json:"growable,omitempty"`
	// provisioning is how many of these slots are on nodes that its node groups are adding.
	// +optional
	Provisioning int64 `json:"provisioning,omitempty"`
	// scores in the order in which they are compared; the lower value wins.
	// +optional
	// +listType=atomic
	Scores []PlacementScore `json:"scores,omitempty"`
	// capacityAge is the age of the member's capacity report that was evaluated. Absent
	// if it has sent none.
	// +optional
	CapacityAge Duration `json:"capacityAge,omitempty"`
	// sessions is the number of the review's sessions that would be placed in the member.
	// +optional
	Sessions int32 `json:"sessions,omitempty"`
}

// PlacementScore is a value by which members are ranked.
type PlacementScore struct {
	// name of the score.
	Name string `json:"name"`
	// value as exact text: an integer or a fraction.
	Value string `json:"value"`
}

// PlacementReview is a dry run: it returns where a session would be placed, and why,
// without placing it. Permission to create one in a namespace includes the results of all
// members. The hub writes the result to the status, and deletes the review ten minutes
// later.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=vdipr,categories=vdi
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="a PlacementReview is immutable: create another one"
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

// PlacementReviewList is a list of PlacementReviews.
//
// +kubebuilder:object:root=true
type PlacementReviewList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlacementReview `json:"items"`
}
