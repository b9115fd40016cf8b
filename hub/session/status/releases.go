package status

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// AddRelease requires the stop of a session in a member up to an epoch.
func AddRelease(s *v1alpha1.VDISession, ref v1alpha1.ClusterRef, epoch int64) {
	SetRelease(s, v1alpha1.Release{ClusterName: ref.Name, ClusterUID: ref.UID, Epoch: epoch})
}

// SetRelease requires a stop of a session in a member, in place of earlier ones there.
func SetRelease(s *v1alpha1.VDISession, left v1alpha1.Release) {
	RemoveRelease(s, left.ClusterUID)
	s.Status.Releasing = append(s.Status.Releasing, left)
}

// RemoveRelease requires no stop of a session in a member any more.
func RemoveRelease(s *v1alpha1.VDISession, member types.UID) {
	s.Status.Releasing = slices.DeleteFunc(s.Status.Releasing, func(o v1alpha1.Release) bool { return o.ClusterUID == member })
}

// Supersede releases a session's placement without waiting for its stop, and returns the
// release.
func Supersede(s *v1alpha1.VDISession) *v1alpha1.Release {
	at := s.Status.Placement
	SetRelease(s, v1alpha1.Release{ClusterName: at.ClusterName, ClusterUID: at.ClusterUID, Epoch: at.Epoch, Superseded: true})
	return &s.Status.Releasing[len(s.Status.Releasing)-1]
}

// SupersededIn returns the copy that a failover left behind in a member, or nil.
func SupersededIn(s *v1alpha1.VDISession, member types.UID) *v1alpha1.Release {
	for i := range s.Status.Releasing {
		if o := &s.Status.Releasing[i]; o.Superseded && o.ClusterUID == member {
			return o
		}
	}
	return nil
}

// ReleasingMessage names the member whose confirmation a session waits for, and why it
// keeps waiting if that member is lost.
func ReleasingMessage(s *v1alpha1.VDISession, stays string) string {
	message := fmt.Sprintf("waiting until %s has confirmed that nothing of it runs", AwaitedReleases(s)[0].ClusterName)
	if stays != "" {
		message += ": " + stays
	}
	return message
}

// ConfirmStopped removes the releases and the placement in a member up to an epoch.
func ConfirmStopped(s *v1alpha1.VDISession, member types.UID, epoch int64) {
	s.Status.Releasing = slices.DeleteFunc(s.Status.Releasing, func(r v1alpha1.Release) bool {
		return r.ClusterUID == member && r.Epoch <= epoch
	})
	if p := s.Status.Placement; p != nil && p.ClusterUID == member && p.Epoch <= epoch {
		s.Status.Placement, s.Status.Endpoint, s.Status.IdleSince = nil, nil, nil
	}
}

// Outstanding returns the placements of a session that are not confirmed as stopped: the
// current one and the released ones.
func Outstanding(s *v1alpha1.VDISession) []v1alpha1.Release {
	out := append([]v1alpha1.Release(nil), s.Status.Releasing...)
	if p := s.Status.Placement; p != nil {
		out = append(out, v1alpha1.Release{ClusterName: p.ClusterName, ClusterUID: p.ClusterUID, Policy: p.Policy, Epoch: p.Epoch})
	}
	return out
}

// AwaitedReleases returns the releases that must be confirmed before the session is placed
// again.
func AwaitedReleases(s *v1alpha1.VDISession) []v1alpha1.Release {
	return slices.DeleteFunc(slices.Clone(s.Status.Releasing), func(o v1alpha1.Release) bool { return o.Superseded })
}

// Displaced reports whether a session lost its placement to a failover.
func Displaced(s *v1alpha1.VDISession) bool {
	return s.Status.Placement == nil && len(AwaitedReleases(s)) < len(s.Status.Releasing)
}

// ForceCleanup returns the reason that an operator gave for forcing the cleanup of a
// deleted session, or "".
func ForceCleanup(s *v1alpha1.VDISession) string {
	if s.DeletionTimestamp.IsZero() {
		return ""
	}
	return s.Annotations[v1alpha1.AnnotationForceCleanup]
}
