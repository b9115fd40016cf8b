package member

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// nodeGroupsFromWire converts the states of node groups.
func nodeGroupsFromWire(groups []*fleetv1.NodeGroupStatus) []placement.NodeGroup {
	if len(groups) == 0 {
		return nil
	}
	out := make([]placement.NodeGroup, 0, len(groups))
	for _, g := range groups {
		converted := placement.NodeGroup{
			Name:  g.GetName(),
			Nodes: max(0, g.GetNodes()), Provisioning: max(0, g.GetProvisioning()), Growable: max(0, g.GetGrowable()), MaxNodes: max(0, g.GetMaxNodes()),
			State: v1alpha1.NodeGroupState(g.GetState()), Reason: g.GetReason(), Message: g.GetMessage(),
			RetryTime: timeFromWire(g), ProvisioningTime: max(0, g.GetProvisioningTime().AsDuration()),
		}
		trim.Strings(&converted.Name, (*string)(&converted.State), &converted.Reason)
		out = append(out, converted)
	}
	return out
}

// timeFromWire returns when a group is tried again; zero if that is not reported.
func timeFromWire(g *fleetv1.NodeGroupStatus) time.Time {
	if !g.GetRetryTime().IsValid() {
		return time.Time{}
	}
	return g.GetRetryTime().AsTime()
}

// growthFromWire converts the nodes of a template that do not exist yet; nil if there are none.
func growthFromWire(t *fleetv1.TemplateCapacity) *placement.Growth {
	if len(t.GetProvisioning()) == 0 && len(t.GetGrowable()) == 0 {
		return nil
	}
	return &placement.Growth{
		Provisioning: groupBucketsFromWire(t.GetProvisioning()),
		Growable:     groupBucketsFromWire(t.GetGrowable()),
	}
}

func bucketFromWire(b *fleetv1.Bucket) placement.Bucket {
	return placement.Bucket{Nodes: b.GetNodes(), Free: amountsFromWire(b.GetFree())}
}

func groupBucketsFromWire(buckets []*fleetv1.Bucket) []placement.NodeGroupBucket {
	if len(buckets) == 0 {
		return nil
	}
	out := make([]placement.NodeGroupBucket, 0, len(buckets))
	for _, b := range buckets {
		converted := placement.NodeGroupBucket{Bucket: bucketFromWire(b), NodeGroup: b.GetNodeGroup()}
		trim.Strings(&converted.NodeGroup)
		out = append(out, converted)
	}
	return out
}
