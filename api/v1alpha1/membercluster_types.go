package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SchedulingState is whether a member takes new sessions.
//
// +kubebuilder:validation:Enum=Active;Cordoned;Draining
type SchedulingState string

// The scheduling states.
const (
	SchedulingActive   SchedulingState = "Active"
	SchedulingCordoned SchedulingState = "Cordoned"
	SchedulingDraining SchedulingState = "Draining"
)

// MemberAccess is whether a member's agent is let in.
//
// +kubebuilder:validation:Enum=Allowed;Revoked
type MemberAccess string

// The kinds of access.
const (
	AccessAllowed MemberAccess = "Allowed"
	AccessRevoked MemberAccess = "Revoked"
)

// MemberClusterSpec is what the operator says of a member.
type MemberClusterSpec struct {
	// Region that the member is in.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="a region begins and ends with a letter or digit and has only letters, digits and -_. between"
	Region string `json:"region"`

	// Zone of the member, if it is in one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="a zone begins and ends with a letter or digit and has only letters, digits and -_. between"
	Zone string `json:"zone,omitempty"`

	// IngressDomain under which the sessions' hosts are made.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=180
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be a domain, such as eu.desktops.example.com"
	IngressDomain string `json:"ingressDomain"`

	// IngressScheme of the URLs.
	// +optional
	// +kubebuilder:validation:Enum=http;https
	// +kubebuilder:default=https
	IngressScheme string `json:"ingressScheme,omitempty"`

	// Scheduling says whether the member takes new sessions.
	// +optional
	// +kubebuilder:default=Active
	Scheduling SchedulingState `json:"scheduling,omitempty"`

	// Drain limits a draining, used while scheduling is Draining.
	// +optional
	Drain DrainLimits `json:"drain,omitzero"`

	// Taints keep away sessions that do not tolerate them. Only NoSchedule
	// and PreferNoSchedule count.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(t, t.effect in ['NoSchedule', 'PreferNoSchedule'])",message="a member's taint is NoSchedule or PreferNoSchedule: to empty a member set scheduling to Draining"
	Taints []corev1.Taint `json:"taints,omitempty"`

	// Weight of the member under strategy Weighted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=100
	Weight *int32 `json:"weight,omitempty"`

	// SessionCap is the most sessions that the member may hold, those that are
	// suspended included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SessionCap *int32 `json:"sessionCap,omitempty"`

	// HeadroomPercent of its slots is kept free for failover.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	HeadroomPercent int32 `json:"headroomPercent,omitempty"`

	// Access of the member's agent to the hub. Revoked ends its connection at
	// once and makes its certificates invalid for good: to let it in again set
	// Allowed and have it join with a new token.
	// +optional
	// +kubebuilder:default=Allowed
	Access MemberAccess `json:"access,omitempty"`

	// Fenced is the operator's declaration that nothing runs in this cluster any
	// more. Bound to its fingerprint.
	// +optional
	Fenced *FencedDeclaration `json:"fenced,omitempty"`
}

// DrainLimits limit a draining.
type DrainLimits struct {
	// Deadline after which sessions in use are moved as well.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// MaxUnavailable is how many sessions may be on the move at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxUnavailable *int32 `json:"maxUnavailable,omitempty"`
}

// DrainStatus is how far a draining is.
type DrainStatus struct {
	// StartTime is when the hub began.
	StartTime metav1.Time `json:"startTime"`
	// Moving sessions are on their way out.
	Moving int32 `json:"moving"`
	// Waiting sessions may go, and wait for others that are on the move.
	// +optional
	Waiting int32 `json:"waiting"`
	// InUse sessions wait until they are idle, or for the deadline.
	InUse int32 `json:"inUse"`
	// NoRoom is how many fit nowhere else.
	NoRoom int32 `json:"noRoom"`
	// Homes is how many stay because their homes are there.
	Homes int32 `json:"homes"`
	// Failed sessions failed permanently there, and stay until they are tried again.
	// +optional
	Failed int32 `json:"failed"`
}

// FencedDeclaration is an operator's declaration that a cluster is off.
type FencedDeclaration struct {
	// Fingerprint of the cluster of which it is said.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint"`
	// By whom.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by"`
	// At what time.
	At metav1.Time `json:"at"`
}

// MemberClusterStatus is what the hub knows of a member. It is written when
// something material changed; heartbeats go to a Lease.
type MemberClusterStatus struct {
	// ObservedGeneration is the generation that this status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready, which sums up; Enrolled, Connected, Synced and PodSecurity.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Fingerprint of the cluster: the UID of its kube-system namespace.
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`
	// Certificate of the member's agent, where the hub issues it.
	// +optional
	Certificate *MemberCertificate `json:"certificate,omitempty"`
	// AgentVersion that last said hello.
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`
	// Sessions placed in the member.
	// +optional
	Sessions int32 `json:"sessions"`
	// Releasing are sessions that were released from there and whose stop the member
	// has not confirmed yet.
	// +optional
	Releasing int32 `json:"releasing,omitempty"`
	// HubCluster: the member is the cluster that the hub itself runs in.
	// +optional
	HubCluster bool `json:"hubCluster,omitempty"`
	// Drain is how far a draining is; absent: there is none.
	// +optional
	Drain *DrainStatus `json:"drain,omitempty"`
	// Restrictions are what the member's administrator allows desktops to have, by
	// the settings of the agent that last connected. A template that they do not allow
	// is unavailable in the member, and an assignment is refused. Absent: the agent
	// does not report them, and has none.
	// +optional
	Restrictions *MemberRestrictions `json:"restrictions,omitempty"`
	// Nodes that take sessions.
	// +optional
	Nodes int32 `json:"nodes"`
	// Templates: what the member says of each, with the slots left for its
	// default resources.
	// +optional
	// +listType=map
	// +listMapKey=name
	Templates []TemplateAvailability `json:"templates,omitempty"`
}

// MemberRestrictions are what a member's administrator allows desktops to have.
type MemberRestrictions struct {
	// HostSuffixes are the domains under which the hosts of desktops may be; empty:
	// any. The ingressDomain should be in or under one of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	HostSuffixes []string `json:"hostSuffixes,omitempty"`
	// ImagePrefixes are the registries and repositories of which desktops' images
	// may be; empty: any.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	ImagePrefixes []string `json:"imagePrefixes,omitempty"`
	// RuntimeClasses that desktops may name; empty: any. "-" is for desktops that
	// name none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	RuntimeClasses []string `json:"runtimeClasses,omitempty"`
	// PriorityClasses that desktops may name; empty: any. "-" is for desktops that
	// name none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	PriorityClasses []string `json:"priorityClasses,omitempty"`
	// AllowOpenNetwork: templates of network mode Open are allowed.
	AllowOpenNetwork bool `json:"allowOpenNetwork"`
	// AllowPrivateEgress: egressCIDRs with addresses that are not public are allowed.
	AllowPrivateEgress bool `json:"allowPrivateEgress"`
	// AllowLinkLocalEgress: egressCIDRs with link-local addresses are allowed.
	AllowLinkLocalEgress bool `json:"allowLinkLocalEgress"`
	// AllowControlPlane: templates that tolerate the control plane's taints are
	// allowed.
	AllowControlPlane bool `json:"allowControlPlane"`
}

// MemberCertificate is the certificate that a member's agent connects with.
type MemberCertificate struct {
	// Serial of the certificate that was last used, in hexadecimal digits.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	Serial string `json:"serial,omitempty"`
	// NotAfter is when it expires.
	// +optional
	NotAfter *metav1.Time `json:"notAfter,omitempty"`
	// NextSerial of the one that was issued since and not used yet. Both are
	// valid until it is.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	NextSerial string `json:"nextSerial,omitempty"`
	// NextNotAfter is when that one expires.
	// +optional
	NextNotAfter *metav1.Time `json:"nextNotAfter,omitempty"`
	// TrustBundleHash of the CAs that were last given to the agent.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	TrustBundleHash string `json:"trustBundleHash,omitempty"`
	// IssuerHash of the CA that issued the certificate that was last used.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	IssuerHash string `json:"issuerHash,omitempty"`
}

// Serials that are valid. Never nil: a member whose certificate was taken
// away may use none.
func (c *MemberCertificate) Serials() []string {
	serials := []string{}
	for _, s := range []string{c.Serial, c.NextSerial} {
		if s != "" {
			serials = append(serials, s)
		}
	}
	return serials
}

// TemplateAvailability is what a member says of a template.
type TemplateAvailability struct {
	// Name of the template.
	Name string `json:"name"`
	// Revision that the agent evaluated.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Available is whether the template can run there at all.
	Available bool `json:"available"`
	// Reason why it can't, one of the Unavailable reasons.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says the same in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
	// Slots left for the template's default resources.
	Slots int32 `json:"slots"`
}

// MemberCluster is a cluster of the fleet.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=vdimc,categories=vdi
// +kubebuilder:selectablefield:JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Scheduling",type=string,JSONPath=`.spec.scheduling`
// +kubebuilder:printcolumn:name="Sessions",type=integer,JSONPath=`.status.sessions`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Agent",type=string,priority=1,JSONPath=`.status.agentVersion`
// +kubebuilder:printcolumn:name="Access",type=string,priority=1,JSONPath=`.spec.access`
// +kubebuilder:printcolumn:name="Certificate-Expires",type=string,priority=1,JSONPath=`.status.certificate.notAfter`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",message="the name of a member is a DNS label of at most 63 characters, without dots"
type MemberCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MemberClusterSpec   `json:"spec"`
	Status MemberClusterStatus `json:"status,omitempty"`
}

// MemberClusterList is a list of members.
//
// +kubebuilder:object:root=true
type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MemberCluster `json:"items"`
}

// ClusterRef names a member for good: a cluster that was rebuilt under the
// same name has another UID.
type ClusterRef struct {
	// Name of the MemberCluster.
	Name string `json:"name"`
	// UID of the MemberCluster.
	UID types.UID `json:"uid"`
}
