package runner

import (
	"time"
)

// defaultSize is how many sessions a workload keeps by default.
const defaultSize = 24

// scenarioLimit bounds one scenario, in production time; scenarioSpare is added for what no factor
// scales.
const (
	scenarioLimit = 15 * time.Minute
	scenarioSpare = 3 * time.Minute
)
