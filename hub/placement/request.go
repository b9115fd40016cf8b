package placement

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Request is a session to be placed. Everything in it is resolved: Resources include the
// template's defaults, Policy is the one that governs the session. A nil selector matches
// every member; a malformed one matches none, and the explanation reports it.
type Request struct {
	UID                   types.UID
	Namespace, Name, User string

	Template TemplateKey
	TemplateSelectors
	Resources Resources

	// RequiredRegions are the only regions allowed; all are if it is empty.
	RequiredRegions []string
	// PreferredRegions rank first, in this order, and before those that the policy prefers.
	PreferredRegions   []string
	ClusterSelector    *metav1.LabelSelector
	ClusterTolerations []corev1.Toleration
	// Priority orders pending sessions; it does not affect the choice of the member.
	Priority int32

	// PolicyName and Policy are the policy that governs the session, if any. Counts are the
	// sessions that its caps count, without this one.
	PolicyName string
	Policy     *v1alpha1.PlacementPolicySpec
	Counts     Counts
	// Home is the member that holds the user's home, nil if no member does.
	Home *v1alpha1.ClusterRef
	Refusals
	// Failover is set if the session's member is lost: it may use the headroom, and free slots
	// rank before all preferences.
	Failover bool
	// FreeOnly is set if the session uses only nodes that exist: it runs well where it is.
	FreeOnly bool
	// Current is set to compute where a placed session would be rescheduled, nil for a
	// session without a placement.
	Current *CurrentPlacement
}

// TemplateSelectors are what a template requires of members and of their nodes.
type TemplateSelectors struct {
	TemplateClusterSelector *metav1.LabelSelector
	NodeSelector            map[string]string
}

// Refusals are the members in which a session is not placed now.
type Refusals struct {
	// Refused are the members that recently refused the session, or that are excluded for another
	// reason, with the reasons.
	Refused map[types.UID]string
	// RefusedFree are those of them that had no free slot, and may add a node for the session.
	RefusedFree sets.Set[types.UID]
}

// Exclude excludes a member, whatever its capacity. The maps must be the caller's own.
func (r *Refusals) Exclude(member types.UID, why string) {
	r.Refused[member] = why
	r.RefusedFree.Delete(member)
}

// CurrentPlacement is a session's current placement. The session does not compete with itself there,
// and stays among members that differ only by the tie-break.
type CurrentPlacement struct {
	Cluster types.UID
	// UsesCapacity reports whether the session uses capacity there; a stopped one does not.
	UsesCapacity bool
}

// Counts are how many sessions a policy has placed that are not confirmed as stopped.
type Counts struct {
	// Total, and the numbers of the request's user and of its namespace.
	Total, User, Namespace int32
	// Clusters are the sessions by member. The map is read-only.
	Clusters map[types.UID]int32
}

// SessionCount counts the sessions that are placed in a member, or not confirmed as stopped there.
type SessionCount struct {
	All int32
	// Releasing of them are only not confirmed as stopped.
	Releasing int32
}

// Candidate is the current state of a member.
type Candidate struct {
	// What every decision reads of every member comes first, close together.

	v1alpha1.ClusterRef
	Ready bool
	// Away is set if a member is not ready but may become ready, and can confirm nothing
	// until then.
	Away bool
	// Sessions placed there and not confirmed as stopped, including reservations.
	Sessions int32
	// Capacity that it last reported, nil before its first report.
	Capacity *Capacity

	// Labels and spec of the MemberCluster.
	Labels map[string]string
	v1alpha1.MemberClusterSpec

	// NotReady explains why it is not ready. It becomes part of sessions' conditions, so
	// it must not change every second.
	NotReady string
	// ReportedAt is when its capacity report arrived.
	ReportedAt time.Time
}

// Snapshot is the fleet, or a part of it, at one time.
type Snapshot struct {
	// Now is the hub's time.
	Now        time.Time
	Candidates []Candidate
	// Awaits is why nothing is placed now, for at most AwaitsFor, nil if sessions are placed.
	Awaits    *Decision
	AwaitsFor time.Duration
}

// Decision is the member for a session, or the reason why there is none.
type Decision struct {
	Placed bool
	// Cluster and Region of the placement.
	Cluster v1alpha1.ClusterRef
	Region  string
	// Reason and Message of the condition Scheduled. The message of a pending session
	// changes only when what it lacks changes.
	Reason, Message string
	// Candidates is how many there were, Fit how many of them fit, Score the strategy's
	// score of the chosen one. They are set if Placed.
	Candidates, Fit int
	Score           v1alpha1.PlacementScore
	// Kind of the slot, if Placed, and unless it is free the node group of its node and how long
	// a node of it usually takes. Another group may add the node: its autoscaler decides.
	Kind             Kind
	NodeGroup        string
	ProvisioningTime time.Duration
	// Verdicts on every candidate, best first, then by name. Only Explain sets them. Slots of
	// one that fits are those left after reservations and headroom.
	Verdicts []v1alpha1.ClusterVerdict
}

// RequestFor returns the placement request, without resources, of a session with a template
// revision and a policy, which may be nil.
func RequestFor(s *v1alpha1.VDISession, t *v1alpha1.TemplateSpec, revision string, policy *v1alpha1.PlacementPolicy) Request {
	req := Request{
		UID: s.UID, Namespace: s.Namespace, Name: s.Name, User: s.Spec.User,
		Template:           TemplateKey{Name: s.Spec.Template, Revision: revision},
		TemplateSelectors:  TemplateSelectors{TemplateClusterSelector: t.ClusterSelector, NodeSelector: t.NodeSelector},
		RequiredRegions:    s.Spec.Placement.RequiredRegions,
		PreferredRegions:   s.Spec.Placement.PreferredRegions,
		ClusterSelector:    s.Spec.Placement.ClusterSelector,
		ClusterTolerations: s.Spec.Placement.ClusterTolerations,
		Priority:           s.Spec.Placement.Priority,
	}
	if policy != nil {
		req.PolicyName, req.Policy = policy.Name, &policy.Spec
	}
	return req
}
