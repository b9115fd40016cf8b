package status

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// MayFailBack reports whether the member runs the very copy that the failover left behind,
// with its desktop ready.
func MayFailBack(s *v1alpha1.VDISession, ref v1alpha1.ClusterRef, reported *v1alpha1.SessionAssignment) bool {
	f, at := s.Status.LastFailover, s.Status.Placement
	if !s.DeletionTimestamp.IsZero() || f == nil || at == nil || at.Idle || at.Run > 1 || f.From != ref.Name || reported == nil {
		return false
	}
	left := SupersededIn(s, ref.UID)
	return left != nil && left.Epoch == f.FromEpoch && reported.Spec.Epoch == left.Epoch &&
		reported.Status.State == v1alpha1.AssignmentActive &&
		meta.IsStatusConditionTrue(reported.Status.Conditions, v1alpha1.ConditionPodReady)
}

// FailBack places the session in its former member again, under a new epoch, and releases
// the replacement.
func FailBack(s *v1alpha1.VDISession, ref v1alpha1.ClusterRef, epoch int64, now metav1.Time) {
	at := s.Status.Placement
	RemoveRelease(s, ref.UID)
	Supersede(s)
	s.Status.Epoch = epoch
	s.Status.Placement = &v1alpha1.Placement{
		ClusterName: ref.Name, ClusterUID: ref.UID, Region: s.Status.LastFailover.FromRegion, Policy: at.Policy,
		Epoch: s.Status.Epoch, PlacementTime: now, Run: 1, FailoverMode: at.FailoverMode,
	}
	SetTrue(s, v1alpha1.ConditionScheduled, v1alpha1.ReasonPlaced, ref.Name+": it ran there before and still runs there")
	SetSending(s)
}
