package v1alpha1

// Reasons of events on a session.
const (
	// EventPlaced: a member was chosen.
	EventPlaced = "Placed"
	// EventMoved: another member was chosen than before.
	EventMoved = "Moved"
	// EventRunning: the desktop is ready.
	EventRunning = "Running"
	// EventWaiting: no member fits, or something keeps the desktop from running.
	EventWaiting = "Waiting"
	// EventRefused: the member would not store the assignment.
	EventRefused = "Refused"
	// EventNotAllowed: the session may not be placed as it is.
	EventNotAllowed = "NotAccepted"
	// EventUnreached: the session's member is unreachable.
	EventUnreached = "MemberUnreachable"
	// EventStopped: nothing of the session runs in the member any more.
	EventStopped = "Stopped"
	// EventExpiringSoon: a time limit is near.
	EventExpiringSoon = "ExpiringSoon"
	// EventExpired: a time limit has ended the session.
	EventExpired = "Expired"
	// EventSuspended: the desktop is stopped, as spec.operatingMode asked.
	EventSuspended = "Suspended"
	// EventResumed: it runs again, as spec.operatingMode asked.
	EventResumed = "Resumed"
	// EventFailed: the session failed permanently, until a person corrects it.
	EventFailed = "Failed"
	// EventRetried: it is tried again, under a higher attempt.
	EventRetried = "Retried"
	// EventFreshHome: a new home has taken the place of the user's.
	EventFreshHome = "FreshHome"
	// EventHomeDeleted: a home is deleted, in its member, that nobody has used for
	// as long as it was to be kept.
	EventHomeDeleted = "HomeDeleted"
	// EventSkipped: a step of the cleanup was skipped; the note says what is
	// left where.
	EventSkipped = "CleanupSkipped"
	// EventForced: an operator asked for the cleanup to be forced.
	EventForced = "CleanupForced"
	// EventNodeGivenUp: the node of a desktop that may run twice has not answered for
	// so long that the desktop starts on another one.
	EventNodeGivenUp = "NodeGivenUp"
	// EventActivityUnknown: the desktop does not report whether it is used, and so
	// its idle timeout is not enforced.
	EventActivityUnknown = "ActivityUnknown"
	// EventTermRaised: the hub was restored from a backup, and has raised its term
	// above those that agents have seen. It is on the Lease vdi-hub-term.
	EventTermRaised = "TermRaised"
	// EventFailedOver: the session was rescheduled, for its member is lost.
	EventFailedOver = "FailedOver"
	// EventFailoverPending: its member is lost, and the session waits to be placed
	// again; the note says for what.
	EventFailoverPending = "FailoverPending"
	// EventHealed: a copy that was left behind in a member that was lost is
	// stopped, or was kept in the stead of its replacement.
	EventHealed = "Healed"
	// EventDraining: the session's member is being drained; the note says when the
	// session is moved.
	EventDraining = "Draining"
	// EventNotMoved: a move that was asked for was not done; the note says why.
	EventNotMoved = "NotMoved"
	// EventFenced: an operator declared a member fenced, or the declaration was
	// taken away. It is on the MemberCluster.
	EventFenced = "Fenced"
	// EventExcess: an agent's stream was ended, for it reported more than a member
	// may have. It is on the MemberCluster.
	EventExcess = "Excess"
	// EventOlderAgent: an agent was let in of a lower term than an earlier one had;
	// its cluster was restored from a backup. It is on the MemberCluster.
	EventOlderAgent = "OlderAgentLetIn"
	// EventRoleConflict: the session's user can't read its password, since a Role or
	// RoleBinding that the hub did not create has the name of the one that the hub
	// needs; the note names it.
	EventRoleConflict = "RoleConflict"
	// EventWriteDenied: the hub's API server denies a request of the hub that the
	// session needs.
	EventWriteDenied = "WriteDenied"
)
