package v1alpha1

// Conditions of a session. Each has one writer, and True is always the good
// state.
const (
	// ConditionAccepted (hub): the session may be placed as it is.
	ConditionAccepted = "Accepted"
	// ConditionScheduled (hub): a member was chosen.
	ConditionScheduled = "Scheduled"
	// ConditionAssigned (hub): that member has stored the assignment.
	ConditionAssigned = "Assigned"
	// ConditionHomeReady (agent): the home's claim is bound, or there is none.
	ConditionHomeReady = "HomeReady"
	// ConditionPodReady (agent): the desktop's Pod is ready.
	ConditionPodReady = "PodReady"
	// ConditionEndpointReady (agent): Service and Ingress are in place.
	ConditionEndpointReady = "EndpointReady"
	// ConditionProgressing (agent): shown only when it is False: the agent has
	// failed permanently, for the reason of the condition that did not come true. It tries
	// again once spec.attempt is raised.
	ConditionProgressing = "Progressing"
	// ConditionFailoverReady (hub): shown only when it is False: the session asks
	// for a failover mode that can't be kept where it runs.
	ConditionFailoverReady = "FailoverReady"
	// ConditionDrained (hub), on a MemberCluster that is Draining: nothing is
	// placed there any more.
	ConditionDrained = "Drained"
	// ConditionFenced (hub), on a MemberCluster that was declared fenced: the
	// declaration holds.
	ConditionFenced = "Fenced"
	// ConditionReady (hub): the sum of the others. On a MemberCluster: its
	// agent is connected and renews its lease.
	ConditionReady = "Ready"
	// ConditionEnrolled (hub), on a MemberCluster: its agent has a certificate
	// that the hub accepts.
	ConditionEnrolled = "Enrolled"
	// ConditionConnected (hub), on a MemberCluster: its agent's stream is open.
	// One that breaks and is back at once does not show.
	ConditionConnected = "Connected"
	// ConditionSynced (hub), on a MemberCluster: hub and agent agree on what
	// runs there.
	ConditionSynced = "Synced"
	// ConditionPodSecurity (hub), on a MemberCluster: all namespaces that its
	// administrator has admitted enforce Pod Security level restricted. Absent: the
	// agent does not report it.
	ConditionPodSecurity = "PodSecurity"
	// ConditionAvailable (hub), on a VDITemplate: some member can run it.
	ConditionAvailable = "Available"
)

// Reasons of Accepted.
const (
	// ReasonAccepted: True.
	ReasonAccepted = "Accepted"
	// ReasonTemplateNotFound: False, no template of that name.
	ReasonTemplateNotFound = "TemplateNotFound"
	// ReasonTemplateDisabled: False, the template takes no new sessions.
	ReasonTemplateDisabled = "TemplateDisabled"
	// ReasonTemplateInvalid: False, the template can't be used as it is.
	ReasonTemplateInvalid = "TemplateInvalid"
	// ReasonResourcesExceedMaximum: False, more was asked for than the
	// template's maximum.
	ReasonResourcesExceedMaximum = "ResourcesExceedMaximum"
	// ReasonResourcesInvalid: False (Accepted, PodReady), zero cpu, memory or
	// ephemeral-storage was asked for, which would be no limit.
	ReasonResourcesInvalid = "ResourcesInvalid"
	// ReasonSessionTooLarge: False, labels, owners, finalizers, groups, placement
	// and resources have more than 32 KiB together.
	ReasonSessionTooLarge = "SessionTooLarge"
	// ReasonTimeoutExceedsMaximum: False, a longer time was asked for than the
	// template's maximum.
	ReasonTimeoutExceedsMaximum = "TimeoutExceedsMaximum"
	// ReasonUserNotAllowed: False, the template is not for this user.
	ReasonUserNotAllowed = "UserNotAllowed"
	// ReasonTemplateTerminating: False, the template is being deleted and takes
	// no new sessions.
	ReasonTemplateTerminating = "TemplateTerminating"
	// ReasonIdleTimeoutExceedsMaximum: False, a longer idle time was asked for
	// than the template's maximum.
	ReasonIdleTimeoutExceedsMaximum = "IdleTimeoutExceedsMaximum"
	// ReasonNamespaceNotAllowed: False, the template or the hub is not for sessions of
	// this namespace.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	// ReasonPolicyNotFound: False, spec.placement.policy names no policy.
	ReasonPolicyNotFound = "PolicyNotFound"
	// ReasonFailoverLosesHome: False, the failover mode would lose what is in the
	// session's home.
	ReasonFailoverLosesHome = "FailoverLosesHome"
	// ReasonEnvNotAllowed: False, the session sets a variable that the template
	// locks, or that is reserved.
	ReasonEnvNotAllowed = "EnvNotAllowed"
	// ReasonFileNotAllowed: False, the session has a file that the template does
	// not let it have.
	ReasonFileNotAllowed = "FileNotAllowed"
	// ReasonSessionNotFound: of a PlacementReview alone, no session of that name.
	ReasonSessionNotFound = "SessionNotFound"
	// ReasonTooManyReviews: of a PlacementReview alone, its namespace has the maximum
	// of reviews that are not answered yet, and it was not computed.
	ReasonTooManyReviews = "TooManyReviews"
)

// Reasons of Scheduled.
const (
	// ReasonPlaced: True, a member was chosen.
	ReasonPlaced = "Placed"
	// ReasonNoMembers: False, the fleet has no member.
	ReasonNoMembers = "NoMembers"
	// ReasonPolicyCap: False, the policy that governs the session places no more
	// of its kind: one of its session caps is reached.
	ReasonPolicyCap = "PolicyCapReached"
	// ReasonUnschedulable: False, no member fits; the message says what each
	// lacks.
	ReasonUnschedulable = "Unschedulable"
	// ReasonReleasing: False, an earlier placement's stop is awaited before
	// the next.
	ReasonReleasing = "Releasing"
	// ReasonSuspended: False (Scheduled, PodReady), the session is suspended.
	ReasonSuspended = "Suspended"
	// ReasonHomeInUse: False (Scheduled, HomeReady), another session has the
	// user's home mounted; the message names it.
	ReasonHomeInUse = "HomeInUse"
	// ReasonNoRoomToResume: False, the member has no capacity for the session to run
	// again, and its home keeps it there or no other has any.
	ReasonNoRoomToResume = "NoRoomToResume"
	// ReasonTooManyHomes: False, the session asks for a fresh home, and its user
	// has left too many behind already; the message names them.
	ReasonTooManyHomes = "TooManyHomes"
	// ReasonHubRestored: False, the hub was restored from a backup, and places
	// nothing until every member has reported what it runs, or 5 min have passed. A
	// session of mode Hold waits for every member.
	ReasonHubRestored = "HubRestored"
)

// Reasons of Assigned.
const (
	// ReasonStored: True, the member's API server has the assignment.
	ReasonStored = "Stored"
	// ReasonSending: False, on its way to the member.
	ReasonSending = "Sending"
	// ReasonRefused: False, the member's agent would not store it; the
	// message says why.
	ReasonRefused = "Refused"
)

// Reasons of the agent's conditions.
const (
	// ReasonNoHome: True (HomeReady), the template has no home.
	ReasonNoHome = "NoHome"
	// ReasonBound: True (HomeReady), the claim is bound.
	ReasonBound = "Bound"
	// ReasonBinding: False (HomeReady), the claim is not bound yet.
	ReasonBinding = "Binding"
	// ReasonClaimLost: False (HomeReady), the claim's volume is gone.
	ReasonClaimLost = "ClaimLost"
	// ReasonBoundTooSmall: True (HomeReady), the claim is bound and could not be
	// made as large as the template asks; the message says why.
	ReasonBoundTooSmall = "BoundTooSmall"
	// ReasonPodReady: True (PodReady).
	ReasonPodReady = "PodReady"
	// ReasonPodPending: False (PodReady), not made or not bound yet.
	ReasonPodPending = "PodPending"
	// ReasonUnschedulablePod: False (PodReady), kube-scheduler finds no node.
	ReasonUnschedulablePod = "PodUnschedulable"
	// ReasonStarting: False (PodReady), the containers start.
	ReasonStarting = "Starting"
	// ReasonImagePull: False (PodReady), the image can't be pulled.
	ReasonImagePull = "ImagePullFailed"
	// ReasonOutOfMemory: False (PodReady), the desktop was ended for using more
	// memory than its limit.
	ReasonOutOfMemory = "OutOfMemory"
	// ReasonEvicted: False (PodReady), the node was short of something and ended
	// the Pod; a new one is made.
	ReasonEvicted = "Evicted"
	// ReasonNodeLost: False (PodReady), the Pod's node does not answer.
	ReasonNodeLost = "NodeLost"
	// ReasonQuotaExceeded: False (any of the agent's), a quota of the namespace
	// leaves no capacity for the child.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonSecretMissing: False (PodReady), a Secret that the hub sends is not
	// there yet.
	ReasonSecretMissing = "SecretMissing"
	// ReasonIdleSoon: True (PodReady), nobody has used the desktop for long: it
	// is about to be ended.
	ReasonIdleSoon = "IdleSoon"
	// ReasonIdleExpired: False (PodReady, Progressing), nobody used the desktop
	// for its idle timeout.
	ReasonIdleExpired = "IdleExpired"
	// ReasonCrashLoop: False (PodReady), the desktop ends again and again.
	ReasonCrashLoop = "CrashLoop"
	// ReasonContainerError: False (PodReady), the kubelet can't make the
	// container; the message is its own.
	ReasonContainerError = "ContainerError"
	// ReasonPodNotReady: False (PodReady), the desktop has started and does
	// not answer on its port.
	ReasonPodNotReady = "PodNotReady"
	// ReasonPodFailed: False (PodReady), the Pod ended; a new one is made.
	ReasonPodFailed = "PodFailed"
	// ReasonPodTerminating: False (PodReady), the Pod is being removed.
	ReasonPodTerminating = "PodTerminating"
	// ReasonEndpointReady: True (EndpointReady).
	ReasonEndpointReady = "EndpointReady"
	// ReasonEndpointPending: False (EndpointReady), Service or Ingress are not
	// in place yet.
	ReasonEndpointPending = "EndpointPending"
	// ReasonApplyFailed: False (any of the agent's), the member's API server
	// denies the creation, change or removal of a child; the message names the
	// cause and the remedy.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonConflict: False (any of the agent's), an object of that name
	// has another owner.
	ReasonConflict = "NameTaken"
	// ReasonWriteDenied: False (Accepted, Scheduled, Assigned), the hub's API server denies a
	// request of the hub that the session needs; the message names the cause and
	// the remedy.
	ReasonWriteDenied = "WriteDenied"
)

// Reasons of Ready, and of what the hub lays over the agent's conditions.
const (
	// ReasonReady: True, all others are.
	ReasonReady = "Ready"
	// ReasonMemberUnreachable: Unknown, it was ready when its member was last
	// reachable.
	ReasonMemberUnreachable = "MemberUnreachable"
	// ReasonFailoverPending: Unknown, or False if it was not ready, its member is
	// lost, and the session waits to be rescheduled; the message says for what.
	ReasonFailoverPending = "FailoverPending"
	// ReasonUnguarded: False (FailoverReady), the member has no guard that would
	// stop the desktop when its lease is over: the session is held as with mode
	// Hold.
	ReasonUnguarded = "Unguarded"
	// ReasonLeaseExpired: False (PodReady), the member received no renewal for
	// as long as its lease: the desktop is stopped, and runs again when the hub
	// says that it was not rescheduled.
	ReasonLeaseExpired = "LeaseExpired"
	// ReasonGuardUnavailable: False (PodReady), the guard or gate of the Pod can't be
	// pulled or does not start. It is of the agent's image, and the session waits
	// until the member's administrator corrects the agent's --guard-image.
	ReasonGuardUnavailable = "GuardUnavailable"
	// ReasonAwaitingHub: False (PodReady), the member's agent has restarted, as
	// after a power cut, and the desktop of mode Hold starts once the hub has
	// affirmed that the session was not rescheduled meanwhile.
	ReasonAwaitingHub = "AwaitingHub"
	// ReasonTerminating: False, the session is being deleted.
	ReasonTerminating = "Terminating"
	// ReasonExpiringSoon: True, the session is about to be ended by a time limit.
	ReasonExpiringSoon = "ExpiringSoon"
	// ReasonTimeExpired: False (Ready, PodReady; Scheduled, where it lost its
	// placement since), the session's timeout has passed.
	ReasonTimeExpired = "TimeExpired"
)

// Reasons of a MemberCluster's Ready.
const (
	// ReasonConnected: True (Ready, Connected), its agent is connected and
	// renews its lease.
	ReasonConnected = "Connected"
	// ReasonNeverConnected: False (Ready, Connected), no agent has said hello
	// yet.
	ReasonNeverConnected = "NeverConnected"
	// ReasonSuspect: Unknown, no renewal for 15 s, or the agent does not keep up, or can't
	// write to its own API server; takes no new sessions.
	ReasonSuspect = "Suspect"
	// ReasonUnreachable: False, no renewal for 40 s.
	ReasonUnreachable = "Unreachable"
	// ReasonRecovering: False, the agent sends heartbeats again and takes no new sessions
	// until it has been stable for 30 s.
	ReasonRecovering = "Recovering"
	// ReasonQuarantined: False, the agent was lost three times within 10 min; the
	// member takes no new sessions for 10 min.
	ReasonQuarantined = "Quarantined"
	// ReasonFingerprintChanged: False (Ready, Connected), the agent speaks for
	// another cluster than before.
	ReasonFingerprintChanged = "FingerprintChanged"
	// ReasonIncompatible: False (Ready, Connected), the agent and the hub are too
	// many versions apart, or the agent claims to have seen a later hub and does not
	// prove it; the message says what to do.
	ReasonIncompatible = "Incompatible"
	// ReasonRevoked: False (Ready, Enrolled, Connected), an operator took the
	// agent's access away.
	ReasonRevoked = "Revoked"
)

// Reasons of a MemberCluster's Drained and Fenced.
const (
	// ReasonDraining: False (Drained), sessions are being moved; True (Scheduled),
	// the session's member is drained. The message says what is waited for.
	ReasonDraining = "Draining"
	// ReasonDrained: True (Drained), nothing is placed there any more.
	ReasonDrained = "Drained"
	// ReasonSessionsRemain: False (Drained), all that can be moved was; the message
	// says why the rest stays and what to do.
	ReasonSessionsRemain = "SessionsRemain"
	// ReasonMemberFenced: True (Fenced), an operator has declared that nothing runs
	// there any more, and its sessions were released.
	ReasonMemberFenced = "MemberFenced"
	// ReasonFencedOther: False (Fenced), the declaration is of another cluster than
	// the member's, and counts for nothing.
	ReasonFencedOther = "FencedOtherCluster"
	// ReasonFencedAlive: False (Fenced), the agent is connected, so that the cluster
	// is not off: the declaration counts for nothing and is taken away.
	ReasonFencedAlive = "FencedButAlive"
)

// Reasons of a MemberCluster's Enrolled.
const (
	// ReasonEnrolled: True, the hub has issued the agent's certificate.
	ReasonEnrolled = "Enrolled"
	// ReasonExternallyIssued: True, the agent's certificate is of an authority
	// other than the hub.
	ReasonExternallyIssued = "ExternallyIssued"
	// ReasonAwaitingAgent: False, no agent has joined yet, or it must join again.
	ReasonAwaitingAgent = "AwaitingAgent"
	// ReasonCertificateExpired: False (Enrolled, Connected), the agent's
	// certificate is not valid any more; it must join again.
	ReasonCertificateExpired = "CertificateExpired"
)

// Reasons of a MemberCluster's Connected and Synced.
const (
	// ReasonDisconnected: False (Connected), the stream is not open; the message
	// says since when, and why it ended.
	ReasonDisconnected = "Disconnected"
	// ReasonStalled: False (Connected), the stream was ended, for the agent did
	// not read or acknowledge.
	ReasonStalled = "Stalled"
	// ReasonExcess: False (Connected, Synced), the stream was ended, for the agent
	// reported more than a member may have; the message says of what, and what to
	// do.
	ReasonExcess = "Excess"
	// ReasonWithdrawalsStopped: False (Synced), the member runs more sessions than
	// the hub stops without a record of why; the message says what to do.
	ReasonWithdrawalsStopped = "WithdrawalsStopped"
	// ReasonSynced: True (Synced).
	ReasonSynced = "Synced"
	// ReasonResyncing: False (Synced), the agent is telling the hub again what it
	// has.
	ReasonResyncing = "Resyncing"
	// ReasonNotConnected: Unknown (Synced), the agent is not connected.
	ReasonNotConnected = "NotConnected"
)

// Reasons of a MemberCluster's PodSecurity.
const (
	// ReasonEnforced: True (PodSecurity).
	ReasonEnforced = "Enforced"
	// ReasonNotEnforced: False (PodSecurity), the message names namespaces that do
	// not enforce it. Whoever has the agent's token can make Pods there that take
	// over a node.
	ReasonNotEnforced = "NotEnforced"
)

// Reasons of an assignment that was refused.
const (
	// RefusedNamespaceNotAdmitted: the member's administrator has not admitted
	// the namespace.
	RefusedNamespaceNotAdmitted = "NamespaceNotAdmitted"
	// RefusedStaleEpoch: the agent has seen a higher epoch of the session.
	RefusedStaleEpoch = "StaleEpoch"
	// RefusedInvalid: the member's API server rejected the assignment.
	RefusedInvalid = "Invalid"
	// RefusedNoRoom: there is no free capacity.
	RefusedNoRoom = "NoRoom"
	// RefusedNotAllowed: the settings of the member's administrator do not allow it;
	// see status.restrictions of the MemberCluster.
	RefusedNotAllowed = "NotAllowed"
)

// Reasons of a template that a member can't run.
const (
	// UnavailableStorageClass: the home's storage class is not there, or there is
	// no default one.
	UnavailableStorageClass = "NoSuchStorageClass"
	// UnavailableIngressClass: the ingress class is not there, or there is no
	// default one.
	UnavailableIngressClass = "NoSuchIngressClass"
	// UnavailableRuntimeClass: the runtime class is not there.
	UnavailableRuntimeClass = "NoSuchRuntimeClass"
	// UnavailableNode: no node matches the selector and the tolerations.
	UnavailableNode = "NoMatchingNode"
	// UnavailableResource: no node is large enough, or has such a device.
	UnavailableResource = "NoSuchResource"
	// UnavailableNotAllowed: the settings of the member's administrator do not allow
	// the template; see status.restrictions of the MemberCluster.
	UnavailableNotAllowed = "NotAllowed"
)
