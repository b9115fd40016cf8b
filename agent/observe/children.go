package observe

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Children are the children of an assignment in the member, nil for those that do not exist.
type Children struct {
	Home    *corev1.PersistentVolumeClaim
	Config  *corev1.ConfigMap
	Pod     *corev1.Pod
	Service *corev1.Service
	// Ingress, or Route where the member has a Gateway.
	Ingress *networkingv1.Ingress
	Route   *gatewayv1.HTTPRoute
	// Door is set if the member's door leads to the desktop instead.
	Door bool

	// The problem of each child, if any. PodProblem may be why there must be no Pod, such
	// as a time limit.
	HomeProblem    *Problem
	ConfigProblem  *Problem
	PodProblem     *Problem
	ServiceProblem *Problem
	IngressProblem *Problem
	RouteProblem   *Problem
	PolicyProblem  *Problem
	BudgetProblem  *Problem

	// Denied is why the API server denies a removal.
	Denied string

	// HomeTooSmall is why the claim could not grow to the size of the assignment.
	HomeTooSmall string
	// OtherUser is the other assignment whose Pod mounts the home.
	OtherUser string
	// Secrets of the assignment that do not exist, or differ from what was sent.
	Secrets []string
	PodNode
}

// PodNode is the state of a Pod whose node is lost, or that has none.
type PodNode struct {
	// NodeLost is set if the Pod's node does not answer.
	NodeLost bool
	// Growth is what a Pod without a node depends on.
	Growth Growth
	// StopUnknown is set if the Pod is being deleted and its Node is gone without a
	// reported stop.
	StopUnknown bool
	// RecreateAt is when the desktop is started on another node. It is zero for a desktop
	// that must never run twice, or has a home.
	RecreateAt time.Time
}

// Problem is why a child is not as it should be.
type Problem struct {
	// Reason is ReasonApplyFailed, ReasonConflict, ReasonQuotaExceeded, or that
	// of a time limit.
	Reason string
	// Message for users.
	Message string
	// Invalid is set if the API server will never accept the child as it is.
	Invalid bool
}

// troubles are the reasons of problems that waiting may not cure, besides those that fail an
// attempt.
var troubles = map[string]bool{
	api.ReasonHomeInUse:        true,
	api.ReasonUnschedulablePod: true,
	api.ReasonScaleUpFailed:    true,
	api.ReasonNodeLost:         true,
	api.ReasonQuotaExceeded:    true,
	api.ReasonApplyFailed:      true,
	api.ReasonConflict:         true,
	api.ReasonIdleExpired:      true,
	api.ReasonLeaseExpired:     true,
	api.ReasonGuardUnavailable: true,
	api.ReasonResourcesInvalid: true,
}

// IsTrouble reports whether a condition reports a problem, rather than progress.
func IsTrouble(c metav1.Condition) bool {
	_, fails := rules[c.Reason]
	return c.Status == metav1.ConditionFalse && (fails || troubles[c.Reason])
}

func isTrue(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func isFalse(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

func (p *Problem) condition(kind string) metav1.Condition {
	return isFalse(kind, p.Reason, p.Message)
}
