package v1alpha1

// Reasons of events. They are on the session unless stated.
const (
	// EventPlaced: a copy that a member runs became the session's placement. Of other
	// placements, the condition Scheduled has the reasons.
	EventPlaced = "Placed"
	// EventMoved: the session was placed on another member than before.
	EventMoved = "Moved"
	// EventRunning: the desktop is ready.
	EventRunning = "Running"
	// EventWaiting: no member fits, or the desktop cannot run yet.
	EventWaiting = "Waiting"
	// EventRefused: the member refused the order.
	EventRefused = "Refused"
	// EventNotAllowed: the session is not accepted.
	EventNotAllowed = "NotAccepted"
	// EventUnreached: the session's member is unreachable.
	EventUnreached = "MemberUnreachable"
	// EventExpiringSoon: the session is about to reach a time limit.
	EventExpiringSoon = "ExpiringSoon"
	// EventExpired: the session reached a time limit and was stopped.
	EventExpired = "Expired"
	// EventSuspended: the desktop is stopped, as spec.operatingMode requests.
	EventSuspended = "Suspended"
	// EventResumed: the desktop runs again, as spec.operatingMode requests.
	EventResumed = "Resumed"
	// EventFailed: the session failed permanently, and needs a correction.
	EventFailed = "Failed"
	// EventRetried: the session is retried with a higher attempt.
	EventRetried = "Retried"
	// EventFreshHome: a new home replaced the user's home.
	EventFreshHome = "FreshHome"
	// EventHomeDeleted: an unused home was deleted in its member after its retention
	// time.
	EventHomeDeleted = "HomeDeleted"
	// EventSkipped: a step of the cleanup was skipped; the note states what remains and
	// where.
	EventSkipped = "CleanupSkipped"
	// EventVisited: a user other than the session's opened its desktop.
	EventVisited = "Visited"
	// EventForced: an operator forced the cleanup.
	EventForced = "CleanupForced"
	// EventNodeLost: the node of a desktop that may run twice was unreachable for too
	// long, and the desktop starts on another node.
	EventNodeLost = "NodeLost"
	// EventActivityUnknown: the desktop does not report its activity, so that its idle
	// timeout is not enforced.
	EventActivityUnknown = "ActivityUnknown"
	// EventTermRaised: the hub was restored from a backup, and raised its term above
	// those that agents have received. It is on the Lease vdi-hub-term.
	EventTermRaised = "TermRaised"
	// EventFailedOver: the session was rescheduled because its member is lost.
	EventFailedOver = "FailedOver"
	// EventFailoverPending: the session's member is lost, and the session is not
	// rescheduled yet; the note states what it waits for.
	EventFailoverPending = "FailoverPending"
	// EventHealed: the older copy of a rescheduled session was stopped after its member
	// reconnected, or was kept and its replacement stopped.
	EventHealed = "Healed"
	// EventDraining: the session's member is being drained; the note states when the
	// session is moved.
	EventDraining = "Draining"
	// EventNotMoved: a requested move was not made; the note states the cause.
	EventNotMoved = "NotMoved"
	// EventFenced: an operator declared a member fenced, or the declaration was removed.
	// It is on the MemberCluster.
	EventFenced = "Fenced"
	// EventExcess: the hub closed an agent's stream because it reported more than the
	// limits of a member. It is on the MemberCluster.
	EventExcess = "Excess"
	// EventNodeGroupExhausted: the autoscaler of a node group adds no node for now; the note
	// states why, and when it is tried again. It is on the MemberCluster.
	EventNodeGroupExhausted = "NodeGroupExhausted"
	// EventNodeGroupRecovered: an exhausted node group adds nodes again. It is on the
	// MemberCluster.
	EventNodeGroupRecovered = "NodeGroupRecovered"
	// EventOlderAgent: the hub accepted an agent with a lower term than an earlier one,
	// because its cluster was restored from a backup. It is on the MemberCluster.
	EventOlderAgent = "OlderAgentLetIn"
	// EventRoleConflict: the session's user cannot read the session's password because a
	// Role or RoleBinding that the hub did not create has the required name; the note
	// names it.
	EventRoleConflict = "RoleConflict"
	// EventWriteDenied: the hub's API server denies a request that the session needs.
	EventWriteDenied = "WriteDenied"
)

// Reasons of a refused order.
const (
	// RefusedNamespaceNotAdmitted: the member's administrator has not admitted the
	// namespace.
	RefusedNamespaceNotAdmitted = "NamespaceNotAdmitted"
	// RefusedStaleEpoch: the agent has received a higher epoch of the session.
	RefusedStaleEpoch = "StaleEpoch"
	// RefusedInvalid: the member's API server rejected the assignment.
	RefusedInvalid = "Invalid"
	// RefusedNoCapacity: the member has no free capacity.
	RefusedNoCapacity = "NoCapacity"
	// RefusedNotAllowed: the restrictions of the member's administrator do not allow it;
	// see status.restrictions of the MemberCluster.
	RefusedNotAllowed = "NotAllowed"
)

// Reasons of a template that is unavailable in a member.
const (
	// UnavailableStorageClass: the home's StorageClass does not exist, or there is no
	// default one.
	UnavailableStorageClass = "NoSuchStorageClass"
	// UnavailableIngressClass: the IngressClass does not exist, or there is no default
	// one.
	UnavailableIngressClass = "NoSuchIngressClass"
	// UnavailableRuntimeClass: the RuntimeClass does not exist.
	UnavailableRuntimeClass = "NoSuchRuntimeClass"
	// UnavailablePriorityClass: the PriorityClass does not exist.
	UnavailablePriorityClass = "NoSuchPriorityClass"
	// UnavailableNode: no node matches nodeSelector and tolerations.
	UnavailableNode = "NoMatchingNode"
	// UnavailableResource: no node is large enough, or has such a device.
	UnavailableResource = "NoSuchResource"
	// UnavailableNotAllowed: the restrictions of the member's administrator do not allow
	// the template; see status.restrictions of the MemberCluster.
	UnavailableNotAllowed = "NotAllowed"
)
