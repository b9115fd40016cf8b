package v1alpha1

// Finalizer keeps a session until its members have confirmed that nothing of it runs any
// more.
const Finalizer = "vdi.kasm.io/session-cleanup"

// AssignmentFinalizer keeps a SessionAssignment until its children are deleted.
const AssignmentFinalizer = "vdi.kasm.io/assignment-cleanup"

// PodFinalizer keeps the Pod of a session that must never run twice, or that has a home,
// until its kubelet has reported that its containers ended. The deletion of the Pod
// object, by force or with its Node, does not prove that.
const PodFinalizer = "vdi.kasm.io/pod-stopped"

// HomeFinalizer keeps a VDIHome while a session may write to the home.
const HomeFinalizer = "vdi.kasm.io/home-in-use"

// TemplateFinalizer keeps a VDITemplate while sessions use it.
const TemplateFinalizer = "vdi.kasm.io/template-in-use"

// MemberFinalizer keeps a MemberCluster while sessions are placed there or not confirmed
// stopped.
const MemberFinalizer = "vdi.kasm.io/member-in-use"

// Labels of the hub's and the agent's objects, and of Namespaces.
const (
	// LabelManagedBy is on every child, with the value ManagedBy.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "vdi-fleet"
	// LabelAssignment is the name of a child's SessionAssignment.
	LabelAssignment = "vdi.kasm.io/assignment"
	// LabelSessionUID is the UID of a child's session.
	LabelSessionUID = "vdi.kasm.io/session-uid"
	// LabelAdmitSessions with value "true" on a Namespace of a member admits sessions
	// there; its administrator sets it.
	LabelAdmitSessions = "vdi.kasm.io/admit-sessions"
	// LabelPodSecurity is the label of Kubernetes by which a Namespace enforces a Pod
	// Security level; PodSecurityRestricted is the level that desktops meet.
	LabelPodSecurity      = "pod-security.kubernetes.io/enforce"
	PodSecurityRestricted = "restricted"
	// LabelGateway with value "true" on a Namespace of a member marks the gateway or
	// ingress controller, the only one that may reach desktops.
	LabelGateway = "vdi.kasm.io/gateway"
	// LabelSecret is the role of a Secret on the hub: SecretAccess, SecretDistribute or SecretConsoleKeys.
	LabelSecret = "vdi.kasm.io/secret"
	// SecretAccess marks a session's access secret.
	SecretAccess = "access"
	// SecretDistribute permits a Secret in the hub's namespace to be sent to members with
	// the sessions whose template names it; an administrator sets it.
	SecretDistribute = "distribute"
	// SecretConsoleKeys marks the keys of the console. The hub sends their public part, the entry
	// ConsolePublicKeys, to members.
	SecretConsoleKeys = "console-keys"
	ConsolePublicKeys = "visit-keys.json"
	// LabelBuffer is on a Pod of a member that only keeps a slot free; its value is the name
	// of the buffer's template, or chosen by the platform team for Pods of its own. If the
	// Pod's priority is negative, its slot counts as free.
	LabelBuffer = "vdi.kasm.io/buffer"
	// LabelUserRole with value "true" is on the Roles and RoleBindings by which users
	// read the passwords of their own sessions. The hub changes and deletes no others.
	LabelUserRole = "vdi.kasm.io/user-role"
)

// Annotations.
const (
	// AnnotationDescription on a VDITemplate describes it to the users of the console.
	AnnotationDescription = "vdi.kasm.io/description"
	// AnnotationSession on a child is namespace/name of the session on the hub.
	AnnotationSession = "vdi.kasm.io/session"
	// AnnotationEpoch on a Pod is the epoch that it was created for.
	AnnotationEpoch = "vdi.kasm.io/epoch"
	// AnnotationSpecHash is the hash of the assignment's spec as the hub sent it; in the
	// hub's member cache, of the spec that the member has stored.
	AnnotationSpecHash = "vdi.kasm.io/spec-hash"
	// AnnotationTraceparent on an assignment is the W3C traceparent of the session's
	// lifecycle, if it is traced; see package tracing.
	AnnotationTraceparent = "vdi.kasm.io/traceparent"
	// AnnotationAttempt on a Pod is the attempt that it was created for.
	AnnotationAttempt = "vdi.kasm.io/attempt"
	// AnnotationSecretVersion is the version of the content of a Secret that the hub
	// sent, and AnnotationSecretHash the hash that detects drift.
	AnnotationSecretVersion = "vdi.kasm.io/secret-version"
	AnnotationSecretHash    = "vdi.kasm.io/secret-hash"
	// AnnotationRun on an access secret of the hub is the epoch and run of its password.
	AnnotationRun = "vdi.kasm.io/run"
	// AnnotationActivity on a Pod: every new value is activity of its user.
	AnnotationActivity = "vdi.kasm.io/activity"
	// AnnotationMove on a session requests to move it away from the member that is the
	// value, as `kubectl vdi rebalance` does. The hub removes the annotation once the
	// move is done or impossible.
	AnnotationMove = "vdi.kasm.io/move"
	// AnnotationForceCleanup is an operator override; its value is the operator's reason,
	// for the event. On a session or an assignment that is being deleted, Pods are
	// deleted without waiting for their kubelet, and the hub removes the finalizer
	// whatever the member reports. On a Pod that is being deleted, it asserts that
	// nothing of the Pod runs, for a node that is off for good.
	AnnotationForceCleanup = "vdi.kasm.io/force-cleanup"
	// AnnotationLastUse on a claim is when a session last used it, and
	// AnnotationRetention how long it is kept after that. AnnotationLastUse on a
	// NetworkPolicy or PodDisruptionBudget is when the agent found no Pod that uses it.
	AnnotationLastUse   = "vdi.kasm.io/last-use"
	AnnotationRetention = "vdi.kasm.io/retention"
)
