package runner

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
)

// Result is a row of the report.
type Result struct {
	Scenario     string         `json:"scenario"`
	Seed         uint64         `json:"seed"`
	Factor       float64        `json:"factor"`
	Injected     []Injection    `json:"injected,omitempty"`
	Changes      map[string]int `json:"changes,omitempty"`
	Agreed       time.Duration  `json:"agreed,omitempty"`
	Running      time.Duration  `json:"running,omitempty"`
	Took         time.Duration  `json:"took,omitempty"`
	Observations int            `json:"observations,omitempty"`
	Restarts     int            `json:"restarts,omitempty"`
	// Desktops is the number of desktops that were started, and Twice how often a Restart session
	// ran in two members at once, according to the kubelets' logs; both are set only if Observed.
	Observed   bool                `json:"observed,omitempty"`
	Desktops   int                 `json:"desktops,omitempty"`
	Twice      int                 `json:"twice,omitempty"`
	Violations []checker.Violation `json:"violations,omitempty"`
	Failed     string              `json:"failed,omitempty"`
}
