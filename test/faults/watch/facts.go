package watch

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
)

// PodReady reports whether conditions show the desktop ready.
func PodReady(conditions []metav1.Condition) bool {
	return meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionPodReady)
}

func sessionOf(s *v1alpha1.VDISession) *checker.SessionState {
	f := &checker.SessionState{
		UID: s.UID, Name: s.Namespace + "/" + s.Name, Epoch: s.Status.Epoch, Deleting: s.DeletionTimestamp != nil,
		Suspended: s.Spec.OperatingMode == v1alpha1.ModeSuspended, Attempt: s.Spec.Attempt,
		Releasing: map[string]int64{}, Superseded: map[string]int64{}, PodReady: PodReady(s.Status.Conditions),
	}
	if p := s.Status.Placement; p != nil {
		f.Cluster, f.Placed = p.ClusterName, p.Epoch
	}
	for _, r := range s.Status.Releasing {
		f.Releasing[r.ClusterName] = r.Epoch
		if r.Superseded {
			f.Superseded[r.ClusterName] = r.Epoch
		}
	}
	return f
}

func assignmentOf(cluster string, a *v1alpha1.SessionAssignment) *checker.AssignmentState {
	return &checker.AssignmentState{
		Cluster: cluster, Session: a.Spec.Session.UID, Name: a.Namespace + "/" + a.Name, Epoch: a.Spec.Epoch,
		Attempt: a.Spec.Attempt, Revision: a.Spec.TemplateRevision, User: a.Spec.User, Mode: string(a.Spec.FailoverMode),
		Suspended: a.Spec.RunState == v1alpha1.ModeSuspended, Failed: a.Status.Failure != nil,
		Lapsed:   lapsed(a),
		Deleting: a.DeletionTimestamp != nil, PodReady: PodReady(a.Status.Conditions), ScaleUpFailed: podReason(a) == v1alpha1.ReasonScaleUpFailed,
		Desktop: fmt.Sprint(a.Spec.Desktop.Env),
	}
}

// lapsed reports whether the member's lease lapsed and the hub has not affirmed the placement
// since. A desktop of mode Hold keeps running.
func lapsed(a *v1alpha1.SessionAssignment) bool {
	over := podReason(a) == v1alpha1.ReasonLeaseExpired
	return (over || a.Status.Lapse > a.Spec.Lapse) && a.Spec.FailoverMode != v1alpha1.FailoverHold
}

// podReason returns the reason of the condition PodReady, empty if there is none.
func podReason(a *v1alpha1.SessionAssignment) string {
	if pod := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionPodReady); pod != nil {
		return pod.Reason
	}
	return ""
}

func podOf(cluster string, p *corev1.Pod) *checker.PodState {
	epoch, _ := strconv.ParseInt(p.Annotations[v1alpha1.AnnotationEpoch], 10, 64)
	attempt, _ := strconv.ParseInt(p.Annotations[v1alpha1.AnnotationAttempt], 10, 64)
	over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	return &checker.PodState{
		Cluster: cluster, UID: p.UID, Namespace: p.Namespace, Name: p.Name,
		Session: types.UID(p.Labels[v1alpha1.LabelSessionUID]), Epoch: epoch, Attempt: attempt,
		Runs:    slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil }),
		Ended:   over && p.DeletionTimestamp == nil,
		Stopped: over && p.DeletionTimestamp != nil,
	}
}
