package v1alpha1

// Finalizer keeps a session until its members have confirmed that nothing of
// it runs any more.
const Finalizer = "vdi.kasm.io/session-cleanup"

// AssignmentFinalizer keeps a SessionAssignment until its children are gone.
const AssignmentFinalizer = "vdi.kasm.io/assignment-cleanup"

// MemberFinalizer keeps a MemberCluster while sessions are placed there or
// not confirmed stopped.
const MemberFinalizer = "vdi.kasm.io/member-in-use"

// Labels on what the agent makes in a member.
const (
	// LabelManagedBy with ManagedBy is on every child.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "vdi-fleet"
	// LabelAssignment is the name of the SessionAssignment that a child is of.
	LabelAssignment = "vdi.kasm.io/assignment"
	// LabelSessionUID is the UID of the session that a child is of.
	LabelSessionUID = "vdi.kasm.io/session-uid"
	// LabelAdmitSessions with value "true" on a Namespace of a member is its
	// administrator's word that sessions may live there.
	LabelAdmitSessions = "vdi.kasm.io/admit-sessions"
)

// Annotations.
const (
	// AnnotationSession is namespace/name of the hub's session, on children.
	AnnotationSession = "vdi.kasm.io/session"
	// AnnotationEpoch is the epoch that a Pod was made for.
	AnnotationEpoch = "vdi.kasm.io/epoch"
	// AnnotationSpecHash is the hash of the assignment's spec as the hub sent
	// it; on the hub's picture of a member it is what the member has stored.
	AnnotationSpecHash = "vdi.kasm.io/spec-hash"
)
