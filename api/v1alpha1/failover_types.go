package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// FailoverMode is what becomes of a session whose member is gone
// (docs/design.md, section 7).
//
// +kubebuilder:validation:Enum=Restart;Fence;Hold
type FailoverMode string

// The failover modes.
const (
	// FailoverRestart reschedules the session some time after its member was
	// lost; a copy left behind a partition is stopped when it heals.
	FailoverRestart FailoverMode = "Restart"
	// FailoverFence never lets two copies run: the agent stops its own first.
	FailoverFence FailoverMode = "Fence"
	// FailoverHold waits until the stop is confirmed.
	FailoverHold FailoverMode = "Hold"
)

// HealingMode is what becomes of the first copy of a session that was placed
// again, once its member reconnects and the copy still runs.
//
// +kubebuilder:validation:Enum=KeepReplacement;KeepOriginal
type HealingMode string

// The healing modes.
const (
	// HealKeepReplacement stops the first copy.
	HealKeepReplacement HealingMode = "KeepReplacement"
	// HealKeepOriginal goes back to the first copy, under a new epoch, and stops
	// the replacement: for desktops whose state is worth more than the work that
	// was done since. Only with FailoverRestart.
	HealKeepOriginal HealingMode = "KeepOriginal"
)

// SessionFailover says what happens when a session's member is lost.
//
// +kubebuilder:validation:XValidation:rule="!has(self.healing) || self.healing != 'KeepOriginal' || !has(self.mode) || self.mode == 'Restart'",message="healing KeepOriginal is of mode Restart alone: with any other mode no two copies ever run, so leave healing out, or set mode to Restart",fieldPath=".healing"
type SessionFailover struct {
	// Mode, by default the policy's that governs the session, else Restart for a
	// template without a home and Hold for one with a home in the cluster. With a
	// home only Hold is accepted: any other mode would lose what is in it.
	// +optional
	Mode FailoverMode `json:"mode,omitempty"`

	// After is how long a Restart session waits beyond its member's being
	// declared Unreachable; 60s by default. The hub's time factor, of which tests
	// and demonstrations make use, scales the default alone.
	// +optional
	After Duration `json:"after,omitempty"`

	// Healing of a Restart session, KeepReplacement by default.
	// +optional
	Healing HealingMode `json:"healing,omitempty"`
}

// Placement is a decision: this session, that member, under this epoch.
type Placement struct {
	// ClusterName is the name of the MemberCluster.
	ClusterName string `json:"clusterName"`
	// ClusterUID is the UID of the MemberCluster.
	ClusterUID types.UID `json:"clusterUID"`
	// Region of the member when the decision fell.
	// +optional
	Region string `json:"region,omitempty"`
	// Policy is the name of the PlacementPolicy by which it was placed; absent:
	// none governed it. The policy's caps count it for as long as it is placed.
	// +optional
	Policy string `json:"policy,omitempty"`
	// Epoch numbers the placements of this session, from 1.
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`
	// PlacementTime is when the decision fell.
	PlacementTime metav1.Time `json:"placementTime"`
	// Run numbers the runs of the desktop in this placement, from 1: it grows
	// when a session is resumed or tried again. The access secret is of one run.
	// +optional
	Run int64 `json:"run,omitempty"`
	// Idle: the desktop is not to run, and its slot was given back. Before it
	// runs again, capacity is reserved.
	// +optional
	Idle bool `json:"idle,omitempty"`
	// FailoverMode of the session as it holds for this placement, after defaults.
	// +optional
	FailoverMode FailoverMode `json:"failoverMode,omitempty"`
	// Guarded: the member has reported that a guard runs beside the desktop, without
	// which a Fence session is held.
	// +optional
	Guarded bool `json:"guarded,omitempty"`
	// Lapse is the last number with which the member asked, after a lapse of its
	// lease or a start of its agent, and the hub has let the desktop run again.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Lapse int64 `json:"lapse,omitempty"`
}

// FailoverRecord is a session's way from a member that was lost.
type FailoverRecord struct {
	// From is the name of the MemberCluster that was lost, and FromRegion where
	// it is.
	From string `json:"from"`
	// +optional
	FromRegion string `json:"fromRegion,omitempty"`
	// FromEpoch of the placement there.
	FromEpoch int64 `json:"fromEpoch"`
	// Reason for which it was lost: MemberUnreachable or MemberFenced.
	Reason string `json:"reason"`
	// LostTime is when that member sent its last heartbeat, by the hub's clock.
	LostTime metav1.Time `json:"lostTime"`
	// Time at which the session was rescheduled.
	Time metav1.Time `json:"time"`
	// RecoveredTime is when it was ready again; absent: not yet.
	// +optional
	RecoveredTime *metav1.Time `json:"recoveredTime,omitempty"`
}
