package observe

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Found are the children of an assignment as the member has them. Nil means
// that there is none.
type Found struct {
	Home    *corev1.PersistentVolumeClaim
	Pod     *corev1.Pod
	Service *corev1.Service
	Ingress *networkingv1.Ingress

	// The problems that applying each child met; nil: none.
	HomeProblem    *Problem
	PodProblem     *Problem
	ServiceProblem *Problem
	IngressProblem *Problem
}

// Problem is why a child can't be what it should.
type Problem struct {
	// Reason is ReasonApplyFailed or ReasonConflict.
	Reason string
	// Message for people.
	Message string
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
