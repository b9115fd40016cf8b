package observe

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var (
	runningNow = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	endedNow   = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	waitsNow   = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
)

// deletedPodOf is a Pod that is being deleted, of one container and a guard.
func deletedPodOf(phase corev1.PodPhase, desktop, guard corev1.ContainerState) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(0, 0)}},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "desktop"}}},
		Status: corev1.PodStatus{
			Phase:                 phase,
			ContainerStatuses:     []corev1.ContainerStatus{{State: desktop}},
			InitContainerStatuses: []corev1.ContainerStatus{{State: guard}},
		},
	}
}

func podOf(p *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(p)
	return p
}

func TestWhenAPodHasStopped(t *testing.T) {
	up, lost, off := Node{Known: true, Ready: true}, Node{Known: true}, Node{Known: true, OutOfService: true}
	byGC := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"}}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		node Node
		want bool
	}{
		"it is not being deleted": {podOf(deletedPodOf(corev1.PodFailed, endedNow, endedNow), func(p *corev1.Pod) { p.DeletionTimestamp = nil }), up, false},
		"it runs":                 {deletedPodOf(corev1.PodRunning, runningNow, runningNow), up, false},
		"it runs, by force":       {podOf(deletedPodOf(corev1.PodRunning, runningNow, runningNow), func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64) }), up, false},
		"its desktop has ended and its guard has not":    {deletedPodOf(corev1.PodRunning, endedNow, runningNow), up, false},
		"its containers have ended, and may start again": {deletedPodOf(corev1.PodRunning, endedNow, endedNow), up, false},
		"its kubelet has reported the end":               {deletedPodOf(corev1.PodFailed, endedNow, endedNow), up, true},
		"its kubelet never started it":                   {deletedPodOf(corev1.PodFailed, waitsNow, waitsNow), up, true},
		"its kubelet refused it":                         {podOf(deletedPodOf(corev1.PodFailed, waitsNow, waitsNow), func(p *corev1.Pod) { p.Status.ContainerStatuses, p.Status.InitContainerStatuses = nil, nil }), up, true},
		"it has no node":                                 {podOf(deletedPodOf(corev1.PodPending, waitsNow, waitsNow), func(p *corev1.Pod) { p.Spec.NodeName = "" }), Node{}, true},
		"its node is lost":                               {deletedPodOf(corev1.PodRunning, runningNow, runningNow), lost, false},
		"its node is gone":                               {deletedPodOf(corev1.PodRunning, runningNow, runningNow), Node{}, false},
		"it was collected":                               {podOf(deletedPodOf(corev1.PodFailed, runningNow, runningNow), byGC), Node{}, false},
		"it was collected unstarted":                     {podOf(deletedPodOf(corev1.PodFailed, waitsNow, waitsNow), byGC), Node{}, false},
		"it was collected before its kubelet wrote": {podOf(deletedPodOf(corev1.PodFailed, waitsNow, waitsNow), func(p *corev1.Pod) {
			byGC(p)
			p.Status.ContainerStatuses, p.Status.InitContainerStatuses = nil, nil
		}), Node{}, false},
		"it was collected, and its kubelet reported the end": {podOf(deletedPodOf(corev1.PodFailed, endedNow, endedNow), byGC), Node{}, true},
		"its node is out of service":                         {deletedPodOf(corev1.PodRunning, runningNow, runningNow), off, true},
		"its node is tainted, and answers":                   {deletedPodOf(corev1.PodRunning, runningNow, runningNow), Node{Known: true, Ready: true, OutOfService: true}, false},
		"an operator asserts it": {podOf(deletedPodOf(corev1.PodRunning, runningNow, runningNow), func(p *corev1.Pod) {
			p.Annotations = map[string]string{api.AnnotationForceCleanup: "it burned down"}
		}), Node{}, true},
	} {
		if got := Stopped(tc.pod, tc.node); got != tc.want {
			t.Errorf("%s: stopped %t, want %t", name, got, tc.want)
		}
	}
}
