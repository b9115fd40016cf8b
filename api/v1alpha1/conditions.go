package v1alpha1

// Conditions of sessions, members and templates. Each has one writer, and True is always
// the good state.
const (
	// ConditionAccepted (hub): the session is valid and may be placed.
	ConditionAccepted = "Accepted"
	// ConditionScheduled (hub): the session is placed on a member.
	ConditionScheduled = "Scheduled"
	// ConditionAssigned (hub): the member has stored the assignment.
	ConditionAssigned = "Assigned"
	// ConditionHomeReady (agent): the home's PersistentVolumeClaim is bound, or the
	// template has no home.
	ConditionHomeReady = "HomeReady"
	// ConditionPodReady (agent): the desktop's Pod is ready.
	ConditionPodReady = "PodReady"
	// ConditionEndpointReady (agent): the desktop's Service and Ingress or HTTPRoute
	// exist.
	ConditionEndpointReady = "EndpointReady"
	// ConditionProgressing (agent): set only while False: the attempt failed permanently,
	// for the reason of the condition that did not become True. Raise spec.attempt to
	// retry.
	ConditionProgressing = "Progressing"
	// ConditionFailoverReady (hub): set only while False: the session's member cannot
	// guarantee its failover mode.
	ConditionFailoverReady = "FailoverReady"
	// ConditionDrained (hub), on a MemberCluster that is Draining: no session is placed
	// there any more.
	ConditionDrained = "Drained"
	// ConditionFenced (hub), on a MemberCluster with spec.fenced: the declaration is in
	// effect.
	ConditionFenced = "Fenced"
	// ConditionReady (hub): the summary of the other conditions. On a MemberCluster: the
	// agent is connected and renews its lease.
	ConditionReady = "Ready"
	// ConditionEnrolled (hub), on a MemberCluster: the agent has a certificate that the
	// hub accepts.
	ConditionEnrolled = "Enrolled"
	// ConditionConnected (hub), on a MemberCluster: the agent's stream is open. An
	// immediate reconnect does not change it.
	ConditionConnected = "Connected"
	// ConditionSynced (hub), on a MemberCluster: the hub's member cache matches what the
	// agent reports.
	ConditionSynced = "Synced"
	// ConditionPodSecurity (hub), on a MemberCluster: all namespaces that its
	// administrator admitted enforce the Pod Security level restricted. Absent if the
	// agent does not report it.
	ConditionPodSecurity = "PodSecurity"
	// ConditionBuffered (hub), on a MemberCluster with spec.buffers: every buffer holds its slots,
	// or is about to.
	ConditionBuffered = "Buffered"
	// ConditionAvailable (hub), on a VDITemplate: at least one member can run it.
	ConditionAvailable = "Available"
)

// Reasons of Accepted.
const (
	// ReasonAccepted: True.
	ReasonAccepted = "Accepted"
	// ReasonTemplateNotFound: False (Accepted, Buffered), the VDITemplate does not exist.
	ReasonTemplateNotFound = "TemplateNotFound"
	// ReasonTemplateDisabled: False, the template accepts no new sessions.
	ReasonTemplateDisabled = "TemplateDisabled"
	// ReasonTemplateInvalid: False, the template is invalid.
	ReasonTemplateInvalid = "TemplateInvalid"
	// ReasonResourcesExceedMaximum: False, the session requests more than the template's
	// resources.max.
	ReasonResourcesExceedMaximum = "ResourcesExceedMaximum"
	// ReasonResourcesInvalid: False (Accepted, PodReady), the session requests zero cpu,
	// memory or ephemeral-storage, which would mean no limit.
	ReasonResourcesInvalid = "ResourcesInvalid"
	// ReasonSessionTooLarge: False, labels, ownerReferences, finalizers, groups,
	// placement and resources exceed 32 KiB together.
	ReasonSessionTooLarge = "SessionTooLarge"
	// ReasonTimeoutExceedsMaximum: False, the session's timeout exceeds the template's
	// timeout.max.
	ReasonTimeoutExceedsMaximum = "TimeoutExceedsMaximum"
	// ReasonUserNotAllowed: False, the template does not allow this user.
	ReasonUserNotAllowed = "UserNotAllowed"
	// ReasonTemplateTerminating: False, the template is being deleted and accepts no new
	// sessions.
	ReasonTemplateTerminating = "TemplateTerminating"
	// ReasonIdleTimeoutExceedsMaximum: False, the session's idleTimeout exceeds the
	// template's idleTimeout.max.
	ReasonIdleTimeoutExceedsMaximum = "IdleTimeoutExceedsMaximum"
	// ReasonNamespaceNotAllowed: False, the template or the hub does not allow sessions
	// of this namespace.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	// ReasonPolicyNotFound: False, the PlacementPolicy in spec.placement.policy does not
	// exist.
	ReasonPolicyNotFound = "PolicyNotFound"
	// ReasonFailoverLosesHome: False, the failover mode would lose the data in the
	// session's home.
	ReasonFailoverLosesHome = "FailoverLosesHome"
	// ReasonEnvNotAllowed: False, the session sets an environment variable that is
	// reserved or that the template locks.
	ReasonEnvNotAllowed = "EnvNotAllowed"
	// ReasonFileNotAllowed: False, the session has a file that the template does not
	// allow.
	ReasonFileNotAllowed = "FileNotAllowed"
	// ReasonSessionNotFound: of a PlacementReview only, the session does not exist.
	ReasonSessionNotFound = "SessionNotFound"
	// ReasonTooManyReviews: of a PlacementReview only, its namespace has the maximum
	// number of unanswered reviews, and this one was not computed.
	ReasonTooManyReviews = "TooManyReviews"
)

// Reasons of Scheduled.
const (
	// ReasonPlaced: True, the session is placed on a member.
	ReasonPlaced = "Placed"
	// ReasonPlacedOnNewNode: True, the session is placed on a member where no slot is free: the node
	// is being added, or must be added first; the message names the node group.
	ReasonPlacedOnNewNode = "PlacedOnNewNode"
	// ReasonNoMembers: False, the fleet has no members.
	ReasonNoMembers = "NoMembers"
	// ReasonPolicyCap: False, a session cap of the governing policy is reached.
	ReasonPolicyCap = "PolicyCapReached"
	// ReasonUnschedulable: False, no member fits; the message lists what each lacks.
	ReasonUnschedulable = "Unschedulable"
	// ReasonReleasing: False, an earlier placement must be confirmed stopped before the
	// next one.
	ReasonReleasing = "Releasing"
	// ReasonSuspended: False (Scheduled, PodReady), the session is suspended.
	ReasonSuspended = "Suspended"
	// ReasonHomeInUse: False (Scheduled, HomeReady), another session has the user's home
	// mounted; the message names it.
	ReasonHomeInUse = "HomeInUse"
	// ReasonNoCapacityToResume: False, the member lacks the capacity to resume the session,
	// and no other member can take it: its home is there, or none has capacity.
	ReasonNoCapacityToResume = "NoCapacityToResume"
	// ReasonTooManyHomes: False, the session requests a fresh home, and its user has the
	// maximum number of homes left behind; the message names them.
	ReasonTooManyHomes = "TooManyHomes"
	// ReasonHubRestored: False, the hub was restored from a backup, and places no session
	// until every member has reported what it runs, for at most 5 min. A session of mode
	// Hold waits for every member.
	ReasonHubRestored = "HubRestored"
)

// Reasons of Assigned.
const (
	// ReasonStored: True, the assignment is stored in the member's API server.
	ReasonStored = "Stored"
	// ReasonSending: False, the order is being sent to the member.
	ReasonSending = "Sending"
	// ReasonRefused: False, the member's agent refused the order; the message states the
	// cause.
	ReasonRefused = "Refused"
)

// Reasons of the agent's conditions.
const (
	// ReasonNoHome: True (HomeReady), the template has no home.
	ReasonNoHome = "NoHome"
	// ReasonBound: True (HomeReady), the PersistentVolumeClaim is bound.
	ReasonBound = "Bound"
	// ReasonBinding: False (HomeReady), the PersistentVolumeClaim is not bound yet.
	ReasonBinding = "Binding"
	// ReasonClaimLost: False (HomeReady), the volume of the PersistentVolumeClaim is
	// lost.
	ReasonClaimLost = "ClaimLost"
	// ReasonBoundTooSmall: True (HomeReady), the PersistentVolumeClaim is bound and could
	// not be expanded to the template's size; the message states the cause.
	ReasonBoundTooSmall = "BoundTooSmall"
	// ReasonPodReady: True (PodReady).
	ReasonPodReady = "PodReady"
	// ReasonPodPending: False (PodReady), the Pod is not created or not scheduled yet.
	ReasonPodPending = "PodPending"
	// ReasonUnschedulablePod: False (PodReady), kube-scheduler finds no node.
	ReasonUnschedulablePod = "PodUnschedulable"
	// ReasonNodeProvisioning: False (PodReady), no node has free capacity, and the member's
	// autoscaler is adding one or may add one; the message names the node group.
	ReasonNodeProvisioning = "NodeProvisioning"
	// ReasonScaleUpFailed: False (PodReady), no node has free capacity, and the node groups
	// that could serve the Pod add none now; the message states why and the remedy.
	ReasonScaleUpFailed = "ScaleUpFailed"
	// ReasonStarting: False (PodReady), the containers are starting.
	ReasonStarting = "Starting"
	// ReasonImagePull: False (PodReady), the image cannot be pulled.
	ReasonImagePull = "ImagePullFailed"
	// ReasonOutOfMemory: False (PodReady), the desktop exceeded its memory limit and was
	// killed.
	ReasonOutOfMemory = "OutOfMemory"
	// ReasonEvicted: False (PodReady), the kubelet evicted the Pod under node pressure; a
	// new one is created.
	ReasonEvicted = "Evicted"
	// ReasonNodeLost: False (PodReady), the Pod's node is unreachable.
	ReasonNodeLost = "NodeLost"
	// ReasonQuotaExceeded: False (any condition of the agent), a ResourceQuota of the
	// namespace does not admit the child.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonSecretMissing: False (PodReady), a Secret that the hub sends has not arrived
	// yet.
	ReasonSecretMissing = "SecretMissing"
	// ReasonIdleSoon: True (PodReady), the desktop is unused and about to reach its idle
	// timeout.
	ReasonIdleSoon = "IdleSoon"
	// ReasonIdleExpired: False (PodReady, Progressing), the desktop was unused for its
	// idle timeout.
	ReasonIdleExpired = "IdleExpired"
	// ReasonCrashLoop: False (PodReady), the desktop exits repeatedly.
	ReasonCrashLoop = "CrashLoop"
	// ReasonContainerError: False (PodReady), the kubelet cannot create the container;
	// the message is the kubelet's.
	ReasonContainerError = "ContainerError"
	// ReasonPodNotReady: False (PodReady), the desktop has started and does not answer on
	// its port.
	ReasonPodNotReady = "PodNotReady"
	// ReasonPodFailed: False (PodReady), the Pod ended; a new one is created.
	ReasonPodFailed = "PodFailed"
	// ReasonPodTerminating: False (PodReady), the Pod is being deleted.
	ReasonPodTerminating = "PodTerminating"
	// ReasonEndpointReady: True (EndpointReady).
	ReasonEndpointReady = "EndpointReady"
	// ReasonEndpointPending: False (EndpointReady), the Service, or the Ingress or
	// HTTPRoute, does not exist yet.
	ReasonEndpointPending = "EndpointPending"
	// ReasonApplyFailed: False (any condition of the agent), the member's API server
	// denies to create, change or delete a child; the message states cause and remedy.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonConflict: False (any condition of the agent), an object of that name has
	// another owner.
	ReasonConflict = "NameTaken"
	// ReasonWriteDenied: False (Accepted, Scheduled, Assigned), the hub's API server
	// denies a request that the session needs; the message states cause and remedy.
	ReasonWriteDenied = "WriteDenied"
)

// Reasons of Ready, and of the agent's conditions where the hub overrides them.
const (
	// ReasonReady: True, all other conditions are True.
	ReasonReady = "Ready"
	// ReasonMemberUnreachable: Unknown, the session was ready at its member's last
	// heartbeat.
	ReasonMemberUnreachable = "MemberUnreachable"
	// ReasonFailoverPending: Unknown, or False if it was not ready, the session's member
	// is lost, and the session is not rescheduled yet; the message states what it waits
	// for.
	ReasonFailoverPending = "FailoverPending"
	// ReasonUnguarded: False (FailoverReady), the member has no guard that stops the
	// desktop after its lease: the session behaves as with mode Hold.
	ReasonUnguarded = "Unguarded"
	// ReasonLeaseExpired: False (PodReady), the member's lease ended without a renewal:
	// the desktop is stopped, and runs again once the hub affirms the placement.
	ReasonLeaseExpired = "LeaseExpired"
	// ReasonGuardUnavailable: False (PodReady), the image of the guard or gate cannot be
	// pulled or does not start. Correct the agent's --guard-image.
	ReasonGuardUnavailable = "GuardUnavailable"
	// ReasonAwaitingHub: False (PodReady), the agent restarted, for example after a power
	// outage: the desktop of mode Hold starts once the hub affirms the placement.
	ReasonAwaitingHub = "AwaitingHub"
	// ReasonTerminating: False, the session is being deleted.
	ReasonTerminating = "Terminating"
	// ReasonExpiringSoon: True, the session is about to reach a time limit.
	ReasonExpiringSoon = "ExpiringSoon"
	// ReasonTimeExpired: False (Ready, PodReady; Scheduled, if it lost its placement
	// since), the session reached its timeout.
	ReasonTimeExpired = "TimeExpired"
)

// Reasons of a MemberCluster's Ready.
const (
	// ReasonConnected: True (Ready, Connected), the agent is connected and renews its
	// lease.
	ReasonConnected = "Connected"
	// ReasonNeverConnected: False (Ready, Connected), no agent has connected yet.
	ReasonNeverConnected = "NeverConnected"
	// ReasonSuspect: Unknown, no heartbeat for 15 s, or the agent does not keep up or
	// cannot write to its API server; the member accepts no new sessions.
	ReasonSuspect = "Suspect"
	// ReasonUnreachable: False, no heartbeat for 40 s.
	ReasonUnreachable = "Unreachable"
	// ReasonRecovering: False, the agent sends heartbeats again; the member accepts no
	// new sessions until it is stable for 30 s.
	ReasonRecovering = "Recovering"
	// ReasonQuarantined: False, the agent was lost three times within 10 min; the member
	// accepts no new sessions for 10 min.
	ReasonQuarantined = "Quarantined"
	// ReasonFingerprintChanged: False (Ready, Connected), the agent runs in another
	// cluster than before.
	ReasonFingerprintChanged = "FingerprintChanged"
	// ReasonIncompatible: False (Ready, Connected), the versions of agent and hub are too
	// far apart, or the agent reports a later term of the hub without proof; the message
	// states the remedy.
	ReasonIncompatible = "Incompatible"
	// ReasonRevoked: False (Ready, Enrolled, Connected), spec.access is Revoked.
	ReasonRevoked = "Revoked"
)

// Reasons of a MemberCluster's Drained and Fenced.
const (
	// ReasonDraining: False (Drained), sessions are being moved; True (Scheduled), the
	// session's member is being drained. The message states what it waits for.
	ReasonDraining = "Draining"
	// ReasonDrained: True (Drained), no session is placed there any more.
	ReasonDrained = "Drained"
	// ReasonSessionsRemain: False (Drained), all sessions that can move have moved; the
	// message states why the others remain, and the remedy.
	ReasonSessionsRemain = "SessionsRemain"
	// ReasonMemberFenced: True (Fenced), an operator declared that nothing runs there any
	// more, and its sessions were released.
	ReasonMemberFenced = "MemberFenced"
	// ReasonFencedOther: False (Fenced), the declaration names another cluster than the
	// member's, and has no effect.
	ReasonFencedOther = "FencedOtherCluster"
	// ReasonFencedAlive: False (Fenced), the agent is connected, so the cluster is
	// running: the declaration has no effect and is removed.
	ReasonFencedAlive = "FencedButAlive"
)

// Reasons of a MemberCluster's Enrolled.
const (
	// ReasonEnrolled: True, the hub issued the agent's certificate.
	ReasonEnrolled = "Enrolled"
	// ReasonExternallyIssued: True, an authority other than the hub issued the agent's
	// certificate.
	ReasonExternallyIssued = "ExternallyIssued"
	// ReasonAwaitingAgent: False, no agent has joined yet, or it must join again.
	ReasonAwaitingAgent = "AwaitingAgent"
	// ReasonCertificateExpired: False (Enrolled, Connected), the agent's certificate
	// expired; it must join again.
	ReasonCertificateExpired = "CertificateExpired"
)

// Reasons of a MemberCluster's Connected and Synced.
const (
	// ReasonDisconnected: False (Connected), the stream is closed; the message states
	// since when, and why.
	ReasonDisconnected = "Disconnected"
	// ReasonStalled: False (Connected), the hub closed the stream because the agent did
	// not read or acknowledge.
	ReasonStalled = "Stalled"
	// ReasonExcess: False (Connected, Synced), the hub closed the stream because the
	// agent reported more than the limits of a member; the message states which limit,
	// and the remedy.
	ReasonExcess = "Excess"
	// ReasonWithdrawalsStopped: False (Synced), the member runs more orphans than the hub
	// stops without a recorded cause; the message states the remedy.
	ReasonWithdrawalsStopped = "WithdrawalsStopped"
	// ReasonSynced: True (Synced).
	ReasonSynced = "Synced"
	// ReasonResyncing: False (Synced), the agent is sending its full state again.
	ReasonResyncing = "Resyncing"
	// ReasonNotConnected: Unknown (Synced), the agent is not connected.
	ReasonNotConnected = "NotConnected"
)

// Reasons of a MemberCluster's PodSecurity.
const (
	// ReasonEnforced: True (PodSecurity).
	ReasonEnforced = "Enforced"
	// ReasonNotEnforced: False (PodSecurity), the message names namespaces that do not
	// enforce the level. With the agent's token, Pods can be created there that take over
	// a node.
	ReasonNotEnforced = "NotEnforced"
)

// Reasons of a MemberCluster's Buffered, and of each buffer in its status.
const (
	// ReasonBuffersKept: True, every buffer holds its slots, or is about to: Pods start, or nodes
	// are being added for them.
	ReasonBuffersKept = "BuffersKept"
	// ReasonBuffersNotEnabled: False, the agent runs without buffers: its chart does not enable them.
	ReasonBuffersNotEnabled = "BuffersNotEnabled"
	// ReasonBufferUnreported: False, the agent has not reported the buffer: the order to keep it is
	// on its way, the agent is not connected, or it is too old.
	ReasonBufferUnreported = "BufferUnreported"
	// ReasonBufferSchedule: False, the hub can't read a period of the schedule, and ignores it.
	ReasonBufferSchedule = "BufferScheduleInvalid"
	// ReasonBufferPriorityClass: False, the member has no PriorityClass vdi-buffer with a negative
	// value, so that desktops could not preempt the Pods of buffers.
	ReasonBufferPriorityClass = "NoBufferPriorityClass"
	// ReasonBufferUnavailable: False, the member can't run the template; the message states why.
	ReasonBufferUnavailable = "BufferTemplateUnavailable"
	// ReasonBufferCapacity: False, the nodes of the member, and those that its node groups may add,
	// have fewer slots left than the buffer is to hold.
	ReasonBufferCapacity = "NoBufferCapacity"
	// ReasonBufferFailed: False, the member's API server denies or rejects the Deployment of the
	// buffer or its Pods; the message states why.
	ReasonBufferFailed = "BufferFailed"
)
