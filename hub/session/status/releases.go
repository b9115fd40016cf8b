package status

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// AddRelease requires the stop of a session in a member up to an epoch.
func AddRelease(s *v1alpha1.VDISession, ref v1alpha1.ClusterRef, epoch int64) {
	left := v1alpha1.Release{ClusterName: ref.Name, ClusterUID: ref.UID, Epoch: epoch}
	s.Status.Releasing = append(ReleasesElsewhere(s.Status.Releasing, left), left)
}

// SupersededIn returns the copy that a failover left behind in a member, or nil.
func SupersededIn(s *v1alpha1.VDISession, ref v1alpha1.ClusterRef) *v1alpha1.Release {
	for i := range s.Status.Releasing {
		if o := &s.Status.Releasing[i]; o.Superseded && o.ClusterUID == ref.UID {
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
		s.Status.Placement, s.Status.URL, s.Status.IdleSince = nil, "", nil
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
	var out []v1alpha1.Release
	for _, o := range s.Status.Releasing {
		if !o.Superseded {
			out = append(out, o)
		}
	}
	return out
}

// Displaced reports whether a session lost its placement to a failover.
func Displaced(s *v1alpha1.VDISession) bool {
	return s.Status.Placement == nil && len(AwaitedReleases(s)) < len(s.Status.Releasing)
}

// ReleasesElsewhere returns the releases in members other than that of a given release.
func ReleasesElsewhere(all []v1alpha1.Release, than v1alpha1.Release) []v1alpha1.Release {
	return slices.DeleteFunc(slices.Clone(all), func(o v1alpha1.Release) bool { return o.ClusterUID == than.ClusterUID })
}

// ForceCleanup returns the reason that an operator gave for forcing the cleanup of a
// deleted session, or "".
func ForceCleanup(s *v1alpha1.VDISession) string {
	if s.DeletionTimestamp.IsZero() {
		return ""
	}
	return s.Annotations[v1alpha1.AnnotationForceCleanup]
}
