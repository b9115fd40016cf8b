package review

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
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
	verdicts := listed(answer.First.Verdicts, answer.Sessions)
	status := &v1alpha1.PlacementReviewStatus{
		Reason: d.Reason, Message: d.Message,
		Placed: int32(answer.Placed), Waiting: int32(answer.Waiting), NotTried: int32(answer.NotTried), //nolint:gosec // at most the count of a review
		Clusters:        make([]v1alpha1.ClusterVerdict, 0, len(verdicts)),
		OmittedClusters: int32(len(answer.First.Verdicts) - len(verdicts)), //nolint:gosec // a fleet has no billions of members
	}
	for i := range verdicts {
		status.Clusters = append(status.Clusters, clusterVerdict(&verdicts[i], answer))
	}
	return status
}

// listed returns at most maxVerdicts verdicts, in their order: those on members that get
// sessions before others.
func listed(verdicts []placement.Verdict, sessions map[types.UID]int) []placement.Verdict {
	if len(verdicts) <= maxVerdicts {
		return verdicts
	}
	others := maxVerdicts - min(len(sessions), maxVerdicts)
	out := make([]placement.Verdict, 0, maxVerdicts)
	for _, v := range verdicts {
		if sessions[v.Cluster.UID] == 0 {
			if others == 0 {
				continue
			}
			others--
		}
		out = append(out, v)
	}
	return slices.Clip(out[:min(len(out), maxVerdicts)])
}

func clusterVerdict(v *placement.Verdict, answer cache.Review) v1alpha1.ClusterVerdict {
	out := v1alpha1.ClusterVerdict{
		ClusterName: v.Cluster.Name, ClusterUID: v.Cluster.UID, Region: v.Region,
		Fits: v.Fits, Rank: int32(v.Rank), Filter: v.Filter, Message: v.Message, Slots: v.Slots, //nolint:gosec // a fleet has no billions of members
		Sessions: int32(answer.Sessions[v.Cluster.UID]), //nolint:gosec // at most the count of a review
	}
	if age, reported := answer.Ages[v.Cluster.UID]; reported {
		out.CapacityAge = v1alpha1.DurationOf(age)
	}
	for _, s := range v.Scores {
		out.Scores = append(out.Scores, v1alpha1.PlacementScore{Name: s.Name, Value: s.Value})
	}
	return out
}
