package review

import (
	"slices"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// maxVerdicts is the maximum number of verdicts in a review's status.
const maxVerdicts = 256

// omit keeps at most maxVerdicts verdicts, in their order: those on members that get sessions
// before others.
func omit(status *v1alpha1.PlacementReviewStatus) {
	others, all := maxVerdicts, len(status.Clusters)
	for i := range status.Clusters {
		if status.Clusters[i].Sessions > 0 {
			others--
		}
	}
	status.Clusters = slices.DeleteFunc(status.Clusters, func(v v1alpha1.ClusterVerdict) bool {
		if v.Sessions > 0 {
			return false
		}
		others--
		return others < 0
	})
	status.Clusters = status.Clusters[:min(len(status.Clusters), maxVerdicts)]
	status.OmittedClusters = int32(all - len(status.Clusters)) //nolint:gosec // a fleet has no billions of members
}
