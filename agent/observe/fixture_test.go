package observe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func assignment(change ...func(*api.SessionAssignment)) *api.SessionAssignment {
	a := &api.SessionAssignment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-0123456789", Generation: 1},
		Spec: api.SessionAssignmentSpec{
			RunState: api.ModeRunning,
			Host:     "web.example.com",
			Desktop:  api.Desktop{Image: "registry/browser:1", Home: api.AssignedHome{Mode: api.HomePerUser, ClaimName: "home-x"}},
		},
	}
	for _, c := range change {
		c(a)
	}
	return a
}

func suspended(a *api.SessionAssignment) { a.Spec.RunState = api.ModeSuspended }
func homeless(a *api.SessionAssignment)  { a.Spec.Desktop.Home = api.AssignedHome{Mode: api.HomeNone} }

func pvc(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	p := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "home-x"}}
	p.Status.Phase = corev1.ClaimBound
	for _, c := range change {
		c(p)
	}
	return p
}

// pod is bound to node n1; its status is as passed.
func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		Spec: corev1.PodSpec{
			NodeName:   "n1",
			Containers: []corev1.Container{{Name: "desktop", Image: "registry/browser:1"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func with(c corev1.PodCondition) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, c) }
}

func state(s corev1.ContainerStatus) func(*corev1.Pod) {
	s.Name = "desktop"
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{s} }
}

func wait(reason, message string) func(*corev1.Pod) {
	return state(corev1.ContainerStatus{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	}})
}

func crashed(t corev1.ContainerStateTerminated) func(*corev1.Pod) {
	return state(corev1.ContainerStatus{
		RestartCount:         4,
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s"}},
		LastTerminationState: corev1.ContainerState{Terminated: &t},
	})
}

func unbind(p *corev1.Pod) { p.Spec.NodeName = "" }

func phase(phase corev1.PodPhase, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason, p.Status.Message = phase, reason, message }
}

func hasFailed(a *api.SessionAssignment) {
	a.Spec.Attempt = 2
	a.Status.Failure = &api.Failure{Attempt: 2, Reason: api.ReasonImagePull, Message: "The image is gone."}
}

// retried failed permanently, and has a higher attempt.
func retried(a *api.SessionAssignment) {
	hasFailed(a)
	a.Spec.Attempt = 3
}

func deletedPod(p *corev1.Pod)                     { p.DeletionTimestamp = &metav1.Time{} }
func deletedClaim(p *corev1.PersistentVolumeClaim) { p.DeletionTimestamp = &metav1.Time{} }
func pendingClaim(p *corev1.PersistentVolumeClaim) { p.Status.Phase = corev1.ClaimPending }
func lostClaim(p *corev1.PersistentVolumeClaim) {
	p.Status.Phase = corev1.ClaimLost
	p.Spec.VolumeName = "pv-7"
}
func fastClaim(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = ptr.To("fast") }
func readyPod(p *corev1.Pod) {
	with(corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})(p)
}
func condition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Status: status, Reason: reason, Message: message}
}

func yes(reason, message string) metav1.Condition {
	return condition(metav1.ConditionTrue, reason, message)
}

func no(reason, message string) metav1.Condition {
	return condition(metav1.ConditionFalse, reason, message)
}

func check(t *testing.T, kind string, got, want metav1.Condition) {
	t.Helper()
	want.Type = kind
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
