package observe

import (
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
	Pod     *corev1.Pod
	Service *corev1.Service
	Ingress *networkingv1.Ingress
	// Route is there in the stead of the Ingress where the member has a Gateway.
	Route  *gatewayv1.HTTPRoute
	Config *corev1.ConfigMap
	Policy *networkingv1.NetworkPolicy
	Budget *policyv1.PodDisruptionBudget

	// Secrets that the hub sends and that are not there as they were sent.
	Secrets []string
	// NodeLost: the Pod's node does not answer.
	NodeLost bool
	// OtherUser is the assignment whose Pod has the user's home mounted, if it is
	// another.
	OtherUser string
	// HomeTooSmall is why the home can't be made as large as it should.
	HomeTooSmall string

	// The problems that applying each child met; nil: none.
	HomeProblem    *Problem
	PodProblem     *Problem
	ServiceProblem *Problem
	IngressProblem *Problem
	RouteProblem   *Problem
	ConfigProblem  *Problem
	PolicyProblem  *Problem
	BudgetProblem  *Problem
}

// Problem is why a child can't be what it should.
type Problem struct {
	// Reason is a reason of the condition that the child is of.
	Reason string
	// Message for people.
	Message string
	// Invalid: the API server will never take it as it is.
	Invalid bool
}

// troubles are the reasons that say more than "not yet": something is wrong,
// and waiting alone may not mend it.
var troubles = map[string]bool{
	api.ReasonClaimLost:        true,
	api.ReasonUnschedulablePod: true,
	api.ReasonImagePull:        true,
	api.ReasonCrashLoop:        true,
	api.ReasonContainerError:   true,
	api.ReasonPodNotReady:      true,
	api.ReasonPodFailed:        true,
	api.ReasonOutOfMemory:      true,
	api.ReasonEvicted:          true,
	api.ReasonNodeLost:         true,
	api.ReasonQuotaExceeded:    true,
	api.ReasonHomeInUse:        true,
	api.ReasonTimeExpired:      true,
	api.ReasonIdleExpired:      true,
	api.ReasonApplyFailed:      true,
	api.ReasonConflict:         true,
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
