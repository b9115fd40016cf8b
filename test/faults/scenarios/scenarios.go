package scenarios

import (
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/scenarios/console"
	"github.com/vdi-fleet/vdi-fleet/test/faults/scenarios/failover"
	"github.com/vdi-fleet/vdi-fleet/test/faults/scenarios/hostile"
)

// All returns the scenarios in the order in which they run.
func All() []runner.Scenario {
	var all []runner.Scenario
	for _, group := range [][]runner.Scenario{
		kills(), stops(), forces(), networks(), apiServers(), identities(), hostile.Forgers(), hostile.Floods(), hostile.Agents(), clocks(), hiccups(), namespaces(), loads(), crowds(), hostile.Stalled(), restores(), console.All(), elastics(), failover.All(),
	} {
		all = append(all, group...)
	}
	return all
}
