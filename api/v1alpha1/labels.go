package v1alpha1

// Finalizer keeps a session until its members have confirmed that nothing of
// it runs any more.
const Finalizer = "vdi.kasm.io/session-cleanup"

// AssignmentFinalizer keeps a SessionAssignment until its children are gone.
const AssignmentFinalizer = "vdi.kasm.io/assignment-cleanup"

// PodFinalizer keeps the Pod of a session that must never run twice, or that has a
// home, until its kubelet has reported that its containers ended: the deletion of the
// Pod's object, by force or with its Node, is no proof of that.
const PodFinalizer = "vdi.kasm.io/pod-stopped"

// HomeFinalizer keeps a VDIHome while a session may write to the home.
const HomeFinalizer = "vdi.kasm.io/home-in-use"

// TemplateFinalizer keeps a VDITemplate while sessions are made of it.
const TemplateFinalizer = "vdi.kasm.io/template-in-use"

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
	// administrator's permission for sessions to run there.
	LabelAdmitSessions = "vdi.kasm.io/admit-sessions"
	// LabelPodSecurity is Kubernetes' label by which a Namespace enforces a level of
	// Pod Security; PodSecurityRestricted is the one that desktops meet.
	LabelPodSecurity      = "pod-security.kubernetes.io/enforce"
	PodSecurityRestricted = "restricted"
	// LabelGateway with value "true" on a Namespace of a member says that the
	// gateway or ingress controller lives there, which alone may reach desktops.
	LabelGateway = "vdi.kasm.io/gateway"
	// LabelSecret says what a Secret on the hub is to us: SecretAccess or
	// SecretDistribute.
	LabelSecret = "vdi.kasm.io/secret"
	// SecretAccess is a session's access secret.
	SecretAccess = "access"
	// SecretDistribute is an administrator's permission that a Secret of the hub's
	// namespace may travel to members with the sessions whose template names it.
	SecretDistribute = "distribute"
	// LabelUserRole with value "true" is on the Roles and RoleBindings by which the
	// hub lets users read the passwords of their own sessions. The hub changes and
	// deletes no others.
	LabelUserRole = "vdi.kasm.io/user-role"
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
	// AnnotationTraceparent on an assignment is the W3C traceparent of the session's
	// walk, where it is traced; see package tracing.
	AnnotationTraceparent = "vdi.kasm.io/traceparent"
	// AnnotationAttempt is the attempt that a Pod was made for.
	AnnotationAttempt = "vdi.kasm.io/attempt"
	// AnnotationSecretVersion is the version of the content of a Secret that the
	// hub sent, and AnnotationSecretHash a hash by which a change is found.
	AnnotationSecretVersion = "vdi.kasm.io/secret-version"
	AnnotationSecretHash    = "vdi.kasm.io/secret-hash"
	// AnnotationRun on an access secret of the hub is the epoch and run that its
	// password was made for.
	AnnotationRun = "vdi.kasm.io/run"
	// AnnotationActivity on a Pod: any new value is activity of its user.
	AnnotationActivity = "vdi.kasm.io/activity"
	// AnnotationMove on a session asks that it be moved to another member, as
	// `kubectl vdi rebalance` does: the value is the name of the member that it is
	// to leave. The hub takes it away when that is done, or can't be.
	AnnotationMove = "vdi.kasm.io/move"
	// AnnotationForceCleanup on a session or an assignment that is being deleted
	// is an operator override: Pods are deleted without waiting for their
	// kubelet, and on the hub the finalizer is removed whatever the member reports. The
	// value is the operator's reason, for the event. On a Pod that is being deleted it
	// is the operator's assertion that nothing of the Pod runs, for a node that is off
	// for good.
	AnnotationForceCleanup = "vdi.kasm.io/force-cleanup"
	// AnnotationLastUse and AnnotationRetention on a claim are when a session
	// last used it, and for how long it is kept after that.
	AnnotationLastUse   = "vdi.kasm.io/last-use"
	AnnotationRetention = "vdi.kasm.io/retention"
)
