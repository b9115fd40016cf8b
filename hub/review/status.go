package review

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/cache"
)

// maxVerdicts is the maximum number of verdicts in a review's status.
const maxVerdicts = 256

// statusOf converts a dry run's result to a review's status.
func statusOf(answer cache.Review) *v1alpha1.PlacementReviewStatus {
	d := answer.First
	if answer.Unschedulable != nil {
		d = *answer.Unschedulable
	}
	clusters := listed(answer.First.Verdicts, answer.Sessions)
	for i := range clusters {
		v := &clusters[i]
		v.Sessions = int32(answer.Sessions[v.ClusterUID]) //nolint:gosec // at most the count of a review
		if age, reported := answer.Ages[v.ClusterUID]; reported {
			v.CapacityAge = v1alpha1.DurationOf(age)
		}
	}
	return &v1alpha1.PlacementReviewStatus{
		Reason: d.Reason, Message: d.Message,
		Placed: int32(answer.Placed), Waiting: int32(answer.Waiting), NotTried: int32(answer.NotTried), //nolint:gosec // at most the count of a review
		Clusters:        clusters,
		OmittedClusters: int32(len(answer.First.Verdicts) - len(clusters)), //nolint:gosec // a fleet has no billions of members
	}
}

// listed returns at most maxVerdicts verdicts, in their order: those on members that get
// sessions before others.
func listed(verdicts []v1alpha1.ClusterVerdict, sessions map[types.UID]int) []v1alpha1.ClusterVerdict {
	if len(verdicts) <= maxVerdicts {
		return verdicts
	}
	others := maxVerdicts - min(len(sessions), maxVerdicts)
	out := make([]v1alpha1.ClusterVerdict, 0, maxVerdicts)
	for _, v := range verdicts {
		if sessions[v.ClusterUID] == 0 {
			if others == 0 {
				continue
			}
			others--
		}
		out = append(out, v)
	}
	return out[:min(len(out), maxVerdicts)]
}
