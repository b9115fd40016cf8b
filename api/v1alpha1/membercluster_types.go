package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SchedulingState defines whether a member accepts new sessions.
//
// +kubebuilder:validation:Enum=Active;Cordoned;Draining
type SchedulingState string

// The scheduling states.
const (
	SchedulingActive   SchedulingState = "Active"
	SchedulingCordoned SchedulingState = "Cordoned"
	SchedulingDraining SchedulingState = "Draining"
)

// MemberAccess defines whether the hub accepts a member's agent.
//
// +kubebuilder:validation:Enum=Allowed;Revoked
type MemberAccess string

// The kinds of access.
const (
	AccessAllowed MemberAccess = "Allowed"
	AccessRevoked MemberAccess = "Revoked"
)

// MemberClusterSpec is the desired configuration of a member.
type MemberClusterSpec struct {
	// region of the member. Sessions and policies select members by it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must consist of letters, digits and -_., and begin and end with a letter or digit"
	Region string `json:"region"`

	// zone of the member within its region, for information. Defaults to none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must consist of letters, digits and -_., and begin and end with a letter or digit"
	Zone string `json:"zone,omitempty"`

	// ingressDomain is the DNS domain of the sessions' URLs: the host of each session is
	// one label below it. At most 180 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=180
	// +kubebuilder:validation:XValidation:rule="!format.dns1123Subdomain().validate(self).hasValue()",message="must be a domain, such as eu.desktops.example.com"
	IngressDomain string `json:"ingressDomain"`

	// ingressScheme of the sessions' URLs: http or https. Defaults to https.
	// +optional
	// +kubebuilder:validation:Enum=http;https
	// +kubebuilder:default=https
	IngressScheme string `json:"ingressScheme,omitempty"`

	// ingressPort of the sessions' URLs, if it is not the scheme's own, as with node ports. Defaults to
	// none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	IngressPort int32 `json:"ingressPort,omitempty"`

	// scheduling defines whether the member accepts new sessions. Active: yes. Cordoned:
	// no; its sessions keep running. Draining: no, and its sessions are moved to other
	// members within the limits of drain. Defaults to Active.
	// +optional
	// +kubebuilder:default=Active
	Scheduling SchedulingState `json:"scheduling,omitempty"`

	// drain limits how sessions are moved while scheduling is Draining.
	// +optional
	Drain DrainLimits `json:"drain,omitzero"`

	// taints repel sessions that do not tolerate them. The effect must be NoSchedule or
	// PreferNoSchedule. At most 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(t, t.effect in ['NoSchedule', 'PreferNoSchedule'])",message="the effect of a taint must be NoSchedule or PreferNoSchedule: to move sessions off a member, set scheduling to Draining"
	Taints []corev1.Taint `json:"taints,omitempty"`

	// weight is the member's share of sessions under strategy Weighted, from 0 to 1000. A
	// member of weight 0 is used only if no other fits. Defaults to 100.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=100
	Weight *int32 `json:"weight,omitempty"`

	// sessionCap is the maximum number of sessions placed in the member, including
	// suspended ones. Defaults to no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SessionCap *int32 `json:"sessionCap,omitempty"`

	// headroomPercent is the percentage of the member's slots kept free for failover,
	// from 0 to 100. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	HeadroomPercent int32 `json:"headroomPercent,omitempty"`

	// nodeGroups are groups of nodes that the member's autoscaler can add. Sessions for which no
	// node has free capacity are placed in the member within the limits of the groups, and wait for
	// a node. At most 32. Defaults to none: only nodes that exist count.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	NodeGroups []NodeGroup `json:"nodeGroups,omitempty"`

	// buffers are slots kept free for sessions of a template, by Pods that desktops preempt. At most
	// 64. Defaults to none.
	// +optional
	// +listType=map
	// +listMapKey=template
	// +kubebuilder:validation:MaxItems=64
	Buffers []Buffer `json:"buffers,omitempty"`

	// access of the member's agent to the hub. Revoked closes its connection at once and
	// permanently invalidates its certificates: to allow it again, set Allowed and let it
	// join with a new token. Defaults to Allowed.
	// +optional
	// +kubebuilder:default=Allowed
	Access MemberAccess `json:"access,omitempty"`

	// fenced is an operator's declaration that nothing runs in this cluster any more. Its
	// sessions are rescheduled at once, whatever their failover mode. The hub removes the
	// declaration when the agent reconnects. Set it with `kubectl vdi fence`.
	// +optional
	Fenced *FencedDeclaration `json:"fenced,omitempty"`
}

// DrainLimits limits the moves of a drain.
type DrainLimits struct {
	// deadline is the time after which sessions in use are moved as well. Defaults to
	// none: sessions in use are never moved.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`
	// maxUnavailable is the maximum number of sessions that are moving at any moment,
	// stopped here and not yet running elsewhere. Sessions that are not to run do not
	// count. At least 1. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxUnavailable *int32 `json:"maxUnavailable,omitempty"`
}

// DrainStatus is the progress of a drain.
type DrainStatus struct {
	// startTime is when the hub started the drain.
	StartTime metav1.Time `json:"startTime"`
	// moving is the number of sessions being moved.
	Moving int32 `json:"moving"`
	// waiting is the number of sessions that may move and wait for drain.maxUnavailable.
	// +optional
	Waiting int32 `json:"waiting"`
	// inUse is the number of sessions that wait until they are idle or for the deadline.
	InUse int32 `json:"inUse"`
	// noCapacity is the number of sessions that fit in no other member.
	NoCapacity int32 `json:"noCapacity"`
	// homes is the number of sessions that remain because their homes are there.
	Homes int32 `json:"homes"`
	// failed is the number of sessions that failed permanently there, and remain until
	// they are retried.
	// +optional
	Failed int32 `json:"failed"`
}

// FencedDeclaration is an operator's declaration that nothing runs in a cluster any more.
type FencedDeclaration struct {
	// fingerprint of the cluster, as in status.fingerprint.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint"`
	// by is the name of the user who declares it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	By string `json:"by"`
	// at is the time of the declaration.
	At metav1.Time `json:"at"`
}

// MemberClusterStatus is the observed state of a member. Heartbeats do not change it;
// they renew a Lease.
type MemberClusterStatus struct {
	// observedGeneration is the generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions of the member: Ready, which summarizes the others, Enrolled, Connected,
	// Synced and PodSecurity; Drained while it is drained, Fenced while it is declared
	// fenced, and Buffered while it has buffers.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// fingerprint identifies the cluster: the UID of its kube-system namespace.
	// +optional
	Fingerprint string `json:"fingerprint,omitempty"`
	// certificate of the member's agent, if the hub issues it.
	// +optional
	Certificate *MemberCertificate `json:"certificate,omitempty"`
	// agentVersion is the version of the agent that last connected.
	// +optional
	AgentVersion string `json:"agentVersion,omitempty"`
	// door is true if browsers reach the member's desktops through a door, which admits those whom the
	// console lets in.
	// +optional
	Door bool `json:"door,omitempty"`
	// sessions is the number of sessions placed in the member.
	// +optional
	Sessions int32 `json:"sessions"`
	// releasing is the number of sessions released from the member whose stop it has not
	// confirmed yet.
	// +optional
	Releasing int32 `json:"releasing,omitempty"`
	// hubCluster is true if the hub runs in this cluster.
	// +optional
	HubCluster bool `json:"hubCluster,omitempty"`
	// drain is the progress of the drain. Absent if there is none.
	// +optional
	Drain *DrainStatus `json:"drain,omitempty"`
	// restrictions are the limits that the member's administrator sets for desktops, as
	// the last connected agent reported them. A template outside of them is unavailable
	// in the member, and its orders are refused. Absent if the agent reports none.
	// +optional
	Restrictions *MemberRestrictions `json:"restrictions,omitempty"`
	// nodes is the number of nodes that accept sessions.
	// +optional
	Nodes int32 `json:"nodes"`
	// growableNodes is the number of nodes that its node groups may still add. Absent if it
	// reports no node groups.
	// +optional
	GrowableNodes *int32 `json:"growableNodes,omitempty"`
	// nodeGroups lists the states of the node groups, as the member reports them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	NodeGroups []NodeGroupStatus `json:"nodeGroups,omitempty"`
	// buffers lists the states of the buffers of the spec.
	// +optional
	// +listType=map
	// +listMapKey=template
	// +kubebuilder:validation:MaxItems=64
	Buffers []BufferStatus `json:"buffers,omitempty"`
	// templates lists the availability of templates, as the member reports it: of at most
	// 100, those that can't run there first.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Templates []TemplateAvailability `json:"templates,omitempty"`

	// templatesOmitted is how many more templates the member reports.
	// +optional
	TemplatesOmitted int32 `json:"templatesOmitted,omitempty"`
}

// MaxTemplateAvailabilities limits MemberClusterStatus.Templates.
const MaxTemplateAvailabilities = 100

// MemberRestrictions are the limits that a member's administrator sets for desktops.
type MemberRestrictions struct {
	// hostSuffixes are the domains permitted for the hosts of desktops. Empty permits
	// any. The member's ingressDomain should be one of them or below one.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	HostSuffixes []string `json:"hostSuffixes,omitempty"`
	// imagePrefixes are the registries and repositories permitted for the images of
	// desktops. Empty permits any.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	ImagePrefixes []string `json:"imagePrefixes,omitempty"`
	// runtimeClasses are the RuntimeClasses permitted for desktops; "-" permits desktops
	// without one. Empty permits any.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	RuntimeClasses []string `json:"runtimeClasses,omitempty"`
	// priorityClasses are the PriorityClasses permitted for desktops; "-" permits
	// desktops without one. Empty permits any.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	PriorityClasses []string `json:"priorityClasses,omitempty"`
	// allowOpenNetwork permits templates with networkPolicy.mode Open.
	AllowOpenNetwork bool `json:"allowOpenNetwork"`
	// allowPrivateEgress permits egressCIDRs with addresses that are not public.
	AllowPrivateEgress bool `json:"allowPrivateEgress"`
	// allowLinkLocalEgress permits egressCIDRs with link-local addresses.
	AllowLinkLocalEgress bool `json:"allowLinkLocalEgress"`
	// allowControlPlane permits templates that tolerate the taints of control plane
	// nodes.
	AllowControlPlane bool `json:"allowControlPlane"`
}

// TemplateAvailability is the availability of a template in a member.
type TemplateAvailability struct {
	// name of the VDITemplate.
	Name string `json:"name"`
	// revision of the template that the agent evaluated.
	// +optional
	Revision string `json:"revision,omitempty"`
	// available is true if the member can run the template.
	Available bool `json:"available"`
	// reason why the template is unavailable, in CamelCase.
	// +optional
	Reason string `json:"reason,omitempty"`
	// message explains the reason.
	// +optional
	Message string `json:"message,omitempty"`
	// slots is the number of sessions of the template, with its default resources, for
	// which the member has free capacity.
	Slots int32 `json:"slots"`
	// growable is the number of such sessions that fit on nodes that its node groups may still add.
	// +optional
	Growable int32 `json:"growable,omitempty"`
}

// MemberCluster is a member: a cluster of the fleet that runs desktops.
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
// +kubebuilder:printcolumn:name="Growable",type=integer,JSONPath=`.status.growableNodes`
// +kubebuilder:printcolumn:name="Buffers",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Buffered")].reason`
// +kubebuilder:printcolumn:name="Agent",type=string,priority=1,JSONPath=`.status.agentVersion`
// +kubebuilder:printcolumn:name="Access",type=string,priority=1,JSONPath=`.spec.access`
// +kubebuilder:printcolumn:name="Certificate-Expires",type=string,priority=1,JSONPath=`.status.certificate.notAfter`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",message="metadata.name must be a DNS label of at most 63 characters, without dots"
type MemberCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MemberClusterSpec   `json:"spec"`
	Status MemberClusterStatus `json:"status,omitempty"`
}

// MemberClusterList is a list of MemberClusters.
//
// +kubebuilder:object:root=true
type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MemberCluster `json:"items"`
}

// ClusterRef identifies a member permanently: a MemberCluster that is recreated under the
// same name has another UID.
type ClusterRef struct {
	// name of the MemberCluster.
	Name string `json:"name"`
	// uid of the MemberCluster.
	UID types.UID `json:"uid"`
}
