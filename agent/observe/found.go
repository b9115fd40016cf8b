package observe

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Found are the children of an assignment as the member has them. Nil means
// that there is none.
type Found struct {
	Home    *corev1.PersistentVolumeClaim
	Config  *corev1.ConfigMap
	Pod     *corev1.Pod
	Service *corev1.Service
	// Ingress, or Route where the member has a Gateway.
	Ingress *networkingv1.Ingress
	Route   *gatewayv1.HTTPRoute
	Policy  *networkingv1.NetworkPolicy
	Budget  *policyv1.PodDisruptionBudget

	// The problems that applying each child met; nil: none. PodProblem may also
	// be why there must be no Pod, such as a time limit.
	HomeProblem    *Problem
	ConfigProblem  *Problem
	PodProblem     *Problem
	ServiceProblem *Problem
	IngressProblem *Problem
	RouteProblem   *Problem
	PolicyProblem  *Problem
	BudgetProblem  *Problem

	// Denied is why the API server denies what must be removed; empty: it does not.
	Denied string

	// HomeTooSmall is why the claim could not be made as large as the
	// assignment asks; empty: it is, or was not tried.
	HomeTooSmall string
	// OtherUser is another assignment whose Pod has the home mounted; empty:
	// none.
	OtherUser string
	// Secrets of the assignment that are not there, or not as they were sent.
	Secrets []string
	// NodeLost: the Pod's node does not answer.
	NodeLost bool
	// StopUnknown: the Pod is being deleted, its node is gone, and nobody has reported
	// that it stopped.
	StopUnknown bool
	// GivenBack is when the desktop of a lost node is started on another one; zero: it
	// is not, since it must never run twice, or has a home.
	GivenBack time.Time
}

// Problem is why a child can't be what it should.
type Problem struct {
	// Reason is ReasonApplyFailed, ReasonConflict, ReasonQuotaExceeded, or that
	// of a time limit.
	Reason string
	// Message for people.
	Message string
	// Invalid: the API server will never take the child as it is.
	Invalid bool
}

// troubles are the reasons that say more than "not yet": something is wrong,
// and waiting alone may not mend it.
var troubles = map[string]bool{
	api.ReasonClaimLost:        true,
	api.ReasonHomeInUse:        true,
	api.ReasonUnschedulablePod: true,
	api.ReasonImagePull:        true,
	api.ReasonCrashLoop:        true,
	api.ReasonOutOfMemory:      true,
	api.ReasonContainerError:   true,
	api.ReasonPodNotReady:      true,
	api.ReasonPodFailed:        true,
	api.ReasonEvicted:          true,
	api.ReasonNodeLost:         true,
	api.ReasonQuotaExceeded:    true,
	api.ReasonApplyFailed:      true,
	api.ReasonConflict:         true,
	api.ReasonIdleExpired:      true,
	api.ReasonLeaseExpired:     true,
	api.ReasonGuardUnavailable: true,
	api.ReasonResourcesInvalid: true,
}

// IsTrouble reports whether a condition says that something is wrong, rather
// than that something is not done yet.
func IsTrouble(c metav1.Condition) bool {
	return c.Status == metav1.ConditionFalse && troubles[c.Reason]
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

// firstOf is the first problem that there is, or nil.
func firstOf(problems ...*Problem) *Problem {
	for _, p := range problems {
		if p != nil {
			return p
		}
	}
	return nil
}
