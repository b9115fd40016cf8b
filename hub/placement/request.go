package placement

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Request is a session that wants a member. Everything in it is resolved: the
// template's defaults are in Resources, the policy that governs is Policy.
// A selector that is nil matches every member, a malformed one matches none
// (and the explanation says so).
type Request struct {
	UID                   types.UID
	Namespace, Name, User string

	Template                TemplateKey
	TemplateClusterSelector *metav1.LabelSelector
	Resources               Resources

	// RequiredRegions are the only ones; empty: any.
	RequiredRegions []string
	// PreferredRegions are tried first, in this order, and before those that
	// the policy prefers.
	PreferredRegions   []string
	ClusterSelector    *metav1.LabelSelector
	ClusterTolerations []corev1.Toleration
	// Priority orders waiting sessions; it does not change where one goes.
	Priority int32

	// Policy that governs the session, by name and what it says; nil: none.
	// Counts are the sessions that its caps count, this one left out.
	PolicyName string
	Policy     *v1alpha1.PlacementPolicySpec
	Counts     Counts
	// Home is the member that holds the user's home; nil: none does.
	Home *v1alpha1.ClusterRef
	// Refused are members that refused this session lately, with why.
	Refused map[types.UID]string
	// Failover is whether the session lost its member: it may use the room
	// that is kept free for that.
	Failover bool
	// Seat is set where it is asked where a session that is placed would go,
	// were it rescheduled; nil: it is placed nowhere.
	Seat *Seat
}

// Seat is where a session is placed already. It does not stand in its own way
// there, and among members that nothing but chance tells apart it stays.
type Seat struct {
	Cluster types.UID
	// Taken is whether it takes room there now: one that is idle does not.
	Taken bool
}

// Counts are how many sessions a policy has placed that are not confirmed
// stopped.
type Counts struct {
	// Total of them, those of the request's user, and those of its namespace.
	Total, User, Namespace int32
	// Clusters are how many there are in each member. It is only read.
	Clusters map[types.UID]int32
}

// Candidate is a member as it is known now.
type Candidate struct {
	Name         string
	UID          types.UID
	Region, Zone string
	// Labels of the MemberCluster.
	Labels map[string]string
	Taints []corev1.Taint
	// Scheduling is whether it takes new sessions; empty is Active.
	Scheduling v1alpha1.SchedulingState
	// Weight under strategy Weighted; a member of weight 0 is used only when
	// no other fits.
	Weight int32
	// SessionCap is the most sessions it may hold; nil: no limit.
	SessionCap *int32
	// HeadroomPercent of its slots is kept free for failover.
	HeadroomPercent int32

	Ready bool
	// NotReady says why it is not ready. It ends up in sessions' conditions:
	// nothing that changes by the second belongs in it.
	NotReady string

	// Sessions placed there and not confirmed stopped, those with
	// reservations included.
	Sessions int32
	// Capacity it last reported; nil: never.
	Capacity *Capacity
}

func (c *Candidate) ref() v1alpha1.ClusterRef {
	return v1alpha1.ClusterRef{Name: c.Name, UID: c.UID}
}

// Decision is where a session goes, or why nowhere.
type Decision struct {
	Placed bool
	// Cluster and Region, where it was placed.
	Cluster v1alpha1.ClusterRef
	Region  string
	// Reason and Message of the condition Scheduled. The message of a session
	// that waits changes only when what it lacks does.
	Reason, Message string
	// Candidates there were, how many of them Fit, and the strategy's Score of the
	// one that was chosen; where it was placed.
	Candidates, Fit int
	Score           NamedScore
	// Verdicts on every candidate, best first, then by name. Only Explain
	// fills them.
	Verdicts []Verdict
}

// Verdict is what became of one candidate.
type Verdict struct {
	Cluster v1alpha1.ClusterRef
	Region  string
	// Fits is whether it passed every filter.
	Fits bool
	// Filter that it failed, by name, and why, in a sentence.
	Filter, Message string
	// Slots left for the request's resources, after reservations and
	// headroom, where it fits.
	Slots int64
	// Rank among those that fit, from 1.
	Rank int
	// Scores of one that fits, in the order in which they decide.
	Scores []NamedScore
}

// NamedScore is one of the numbers that rank a candidate: the lower the better.
type NamedScore struct {
	Name string
	// Value as text, exact: a whole number or a fraction.
	Value string
}
