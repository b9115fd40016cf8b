package runner

import (
	"time"
)

// defaultSize is how many sessions a workload keeps.
const defaultSize = 24

// scenarioLimit bounds one scenario, in time of production; what no factor
// scales comes on top.
const (
	scenarioLimit = 15 * time.Minute
	scenarioSpare = 3 * time.Minute
)
