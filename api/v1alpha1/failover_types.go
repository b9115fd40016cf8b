package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FailoverMode defines what happens to a session when its member is lost (docs/design.md,
// section 7).
//
// +kubebuilder:validation:Enum=Restart;Fence;Hold
type FailoverMode string

// The failover modes.
const (
	// FailoverRestart reschedules the session some time after its member became
	// Unreachable. A copy left behind a network partition is stopped when the member
	// reconnects.
	FailoverRestart FailoverMode = "Restart"
	// FailoverFence never runs two copies: the agent stops its copy before the hub
	// reschedules the session.
	FailoverFence FailoverMode = "Fence"
	// FailoverHold reschedules the session only once its stop is confirmed.
	FailoverHold FailoverMode = "Hold"
)

// HealingMode defines which copy of a rescheduled session is kept when its first member
// reconnects and still runs it.
//
// +kubebuilder:validation:Enum=KeepReplacement;KeepOriginal
type HealingMode string

// The healing modes.
const (
	// HealKeepReplacement stops the older copy.
	HealKeepReplacement HealingMode = "KeepReplacement"
	// HealKeepOriginal returns to the older copy under a new epoch, and stops the newer
	// one: for desktops whose state is worth more than the work since the failover.
	// Requires FailoverRestart.
	HealKeepOriginal HealingMode = "KeepOriginal"
)

// SessionFailover defines what happens to a session when its member is lost.
//
// +kubebuilder:validation:XValidation:rule="!has(self.healing) || self.healing != 'KeepOriginal' || !has(self.mode) || self.mode == 'Restart'",message="healing KeepOriginal requires mode Restart, since no other mode runs two copies: leave healing out, or set mode to Restart",fieldPath=".healing"
type SessionFailover struct {
	// mode of failover. Restart: reschedule after a delay; two copies may run during a
	// network partition. Fence: reschedule once the member's lease ended; never two
	// copies. Hold: reschedule once the stop is confirmed. Defaults to the mode of the
	// governing PlacementPolicy, else to Hold for a template with a home in the cluster
	// and to Restart for others. A session with a home accepts only Hold, since any other
	// mode would lose the home's data.
	// +optional
	Mode FailoverMode `json:"mode,omitempty"`

	// after is how long a Restart session waits before it is rescheduled, counted from
	// when its member became Unreachable. Defaults to 60s (flag --failover-after of the
	// hub).
	// +optional
	After Duration `json:"after,omitempty"`

	// healing defines which copy of a Restart session is kept when its first member
	// reconnects. KeepReplacement stops the older copy, KeepOriginal the newer one.
	// Defaults to KeepReplacement.
	// +optional
	Healing HealingMode `json:"healing,omitempty"`
}

// Placement is the decision that a session runs in a member, under an epoch.
type Placement struct {
	// clusterName is the name of the MemberCluster.
	ClusterName string `json:"clusterName"`
	// clusterUID is the UID of the MemberCluster.
	ClusterUID types.UID `json:"clusterUID"`
	// region of the member at the time of the placement.
	// +optional
	Region string `json:"region,omitempty"`
	// policy is the name of the PlacementPolicy that governed the placement, empty if
	// none did. Its session caps count the session for as long as it is placed.
	// +optional
	Policy string `json:"policy,omitempty"`
	// epoch is the number of the placement, from 1. It is higher for each new placement
	// of the session.
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`
	// placementTime is when the session was placed.
	PlacementTime metav1.Time `json:"placementTime"`
	// run is the number of the desktop's run within this placement, from 1. It is higher
	// after each resume or retry. Each run has its own access password.
	// +optional
	Run int64 `json:"run,omitempty"`
	// idle is true if the desktop is not to run, and holds no slot. Capacity is reserved
	// before it runs again.
	// +optional
	Idle bool `json:"idle,omitempty"`
	// failoverMode is the effective failover mode of this placement, after defaults.
	// +optional
	FailoverMode FailoverMode `json:"failoverMode,omitempty"`
	// guarded is true if the member reported a guard beside the desktop. A Fence session
	// without a guard behaves as with mode Hold.
	// +optional
	Guarded bool `json:"guarded,omitempty"`
	// lapse is the number of the last lease lapse, or restart of the agent, after which
	// the hub affirmed the placement so that the desktop may run again.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Lapse int64 `json:"lapse,omitempty"`
}

// FailoverRecord describes a failover of a session.
type FailoverRecord struct {
	// from is the name of the MemberCluster that was lost.
	From string `json:"from"`
	// fromRegion is the region of that member.
	// +optional
	FromRegion string `json:"fromRegion,omitempty"`
	// fromEpoch is the epoch of the placement there.
	FromEpoch int64 `json:"fromEpoch"`
	// reason of the loss: MemberUnreachable or MemberFenced.
	Reason string `json:"reason"`
	// lostTime is the time of that member's last heartbeat, by the hub's clock.
	LostTime metav1.Time `json:"lostTime"`
	// time at which the session was rescheduled.
	Time metav1.Time `json:"time"`
	// recoveredTime is when the session was ready again. Absent until then.
	// +optional
	RecoveredTime *metav1.Time `json:"recoveredTime,omitempty"`
}
