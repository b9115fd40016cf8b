package failover

import (
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
)

// All returns the scenarios that lose members, each with kubelets whose logs show what ran.
func All() []runner.Scenario {
	var all []runner.Scenario
	for _, group := range [][]runner.Scenario{lostMembers(), partitions(), lostHubs(), targets(), declarations(), replicas(), pauses()} {
		all = append(all, group...)
	}
	for i := range all {
		all[i].Name = "failover-" + all[i].Name
		all[i].Kind.Kubelets = true
		all[i].Size = 12
		all[i].Slack += stage.WatchBackoff
	}
	return all
}
