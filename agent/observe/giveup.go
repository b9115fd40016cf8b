package observe

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// longest is the most bytes of a message: what a kubelet or an API server says
// may be long, and an event or a condition takes no more.
const longest = 1000

// Patience is how long trouble that may pass is borne.
type Patience struct {
	// FailAfter is how long a Pod may be in trouble, since it was made or since
	// it ceased to be ready.
	FailAfter time.Duration
	// Restarts that its desktop must have made besides, where it ends by itself.
	Restarts int32
	// Endings is how many Pods in a row may end.
	Endings int
}

// patient is how much patience a reason is met with.
type patient int

const (
	// never given up: others must act, or it passes.
	never patient = iota
	// afterRestarts, and the time besides.
	afterRestarts
	// afterEndings of so many Pods in a row.
	afterEndings
	// afterTime is over.
	afterTime
	// unlessRan: after the time, if the desktop never answered in this run.
	unlessRan
	// atOnce: nothing but a change can help.
	atOnce
)

// verdicts by reason, with what to do; a reason that is not here is never given
// up: no node fits, a volume is not bound yet, a quota is used up, a node is
// lost, a name is taken, a secret is on its way.
var verdicts = map[string]struct {
	patient patient
	remedy  string
}{
	api.ReasonClaimLost:      {atOnce, "restore the volume, or delete the claim to begin with an empty home"},
	api.ReasonImagePull:      {afterTime, "push the image, or correct the template's image or pull secrets"},
	api.ReasonContainerError: {afterTime, "correct what the kubelet names"},
	api.ReasonCrashLoop:      {afterRestarts, "correct the image, or the template's command, arguments and variables"},
	api.ReasonOutOfMemory:    {afterRestarts, "raise the template's memory"},
	api.ReasonPodNotReady:    {unlessRan, "correct the template's port"},
	api.ReasonPodFailed:      {afterEndings, "see on the member's nodes what ends the Pods"},
	api.ReasonEvicted:        {afterEndings, "raise the template's memory or ephemeral-storage, or make room on the member's nodes"},
}

// imageNever are the kubelet's words for an image that no waiting brings.
var imageNever = map[string]bool{"InvalidImageName": true, "ErrImageNeverPull": true}

// GiveUp says whether an attempt is to be given up, or, if it is not, when to
// look again; zero: when something happens. endings is how many of its Pods have
// ended in a row.
func GiveUp(a *api.SessionAssignment, f Found, status api.SessionAssignmentStatus, endings int, p Patience, now time.Time) (*api.Failure, time.Duration) {
	if c := invalid(f); c != nil {
		return failure(a, c, "correct the template"), 0
	}
	for _, kind := range Kinds {
		c := meta.FindStatusCondition(status.Conditions, kind)
		if c == nil || c.Status != metav1.ConditionFalse {
			continue
		}
		v := verdicts[c.Reason]
		over, wait := v.patient.over(f.Pod, status, endings, p, now)
		if over {
			return failure(a, c, v.remedy), 0
		}
		if wait > 0 {
			return nil, wait
		}
	}
	return nil, 0
}

// invalid is the condition of a child that the API server will never take.
func invalid(f Found) *metav1.Condition {
	for _, child := range []struct {
		problem *Problem
		kind    string
	}{
		{f.HomeProblem, api.ConditionHomeReady}, {f.ConfigProblem, api.ConditionPodReady}, {f.PodProblem, api.ConditionPodReady},
		{f.PolicyProblem, api.ConditionEndpointReady}, {f.ServiceProblem, api.ConditionEndpointReady},
		{f.IngressProblem, api.ConditionEndpointReady}, {f.RouteProblem, api.ConditionEndpointReady},
	} {
		if child.problem != nil && child.problem.Invalid {
			c := child.problem.condition(child.kind)
			return &c
		}
	}
	return nil
}

// over reports whether the patience with a reason is, and else when it may be.
func (patience patient) over(pod *corev1.Pod, s api.SessionAssignmentStatus, endings int, p Patience, now time.Time) (bool, time.Duration) {
	switch patience {
	case atOnce:
		return true, 0
	case afterEndings:
		return endings >= p.Endings, 0
	case unlessRan:
		if s.RunningSince != nil {
			return false, 0
		}
	case afterRestarts:
		if restarts(pod) < p.Restarts {
			return false, 0
		}
	case afterTime:
		if neverPulled(pod) {
			return true, 0
		}
	default:
		return false, 0
	}
	if pod == nil {
		return false, 0
	}
	left := inTroubleSince(pod).Add(p.FailAfter).Sub(now)
	return left <= 0, max(left, 0)
}

// inTroubleSince is when a Pod that is not ready was made, or ceased to be.
func inTroubleSince(pod *corev1.Pod) time.Time {
	since := pod.CreationTimestamp.Time
	if c := podCondition(pod, corev1.PodReady); c.Status == corev1.ConditionFalse && c.LastTransitionTime.After(since) {
		since = c.LastTransitionTime.Time
	}
	return since
}

func restarts(pod *corev1.Pod) int32 {
	var most int32
	if pod != nil {
		for _, s := range pod.Status.ContainerStatuses {
			most = max(most, s.RestartCount)
		}
	}
	return most
}

func neverPulled(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Waiting != nil && imageNever[s.State.Waiting.Reason] {
			return true
		}
	}
	return false
}

func failure(a *api.SessionAssignment, c *metav1.Condition, remedy string) *api.Failure {
	end := fmt.Sprintf(" It is not tried again: %s, then raise spec.attempt.", remedy)
	return &api.Failure{
		Attempt: a.Spec.Attempt, Reason: c.Reason,
		Message: cut(sentence(c.Message), longest-len(end)) + end,
	}
}

// Fail puts a failure into a status.
func Fail(s *api.SessionAssignmentStatus, a *api.SessionAssignment, f *api.Failure, now time.Time) {
	s.Failure = f
	set(s, a, isFalse(api.ConditionProgressing, f.Reason, f.Message), now)
	s.Reason, s.Message = f.Reason, f.Message
}

// short keeps a message within what an API takes.
func short(message string) string { return cut(message, longest) }

func cut(message string, most int) string {
	const mark = "…"
	if len(message) <= most {
		return message
	}
	end := most - len(mark)
	for end > 0 && message[end]&0xc0 == 0x80 { // not within a character
		end--
	}
	return message[:end] + mark
}
