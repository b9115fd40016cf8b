package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
)

// Scenario is one way to do harm.
type Scenario struct {
	Name string
	// size is how many sessions the workload keeps; 0: 24.
	Size int
	// short: part of `make test`.
	Short bool
	// alone: it breaks more than the runner can heal, so it has a fleet of its
	// own and no place in a soak.
	Alone bool
	// kind of fleet that it needs.
	Kind stage.Kind
	// slack is what the scenario's harm costs besides, and no factor scales.
	Slack time.Duration
	// ends: it ends processes of hub or agents.
	EndsProcesses bool
	Do            func(context.Context, *Run) error
}

// Injection is a harm that was done, and when.
type Injection struct {
	After time.Duration `json:"after"`
	What  string        `json:"what"`
}

func (i Injection) String() string { return fmt.Sprintf("+%.1fs %s", i.After.Seconds(), i.What) }

// Rounds is how often a moment is hit in one scenario.
const Rounds = 3
