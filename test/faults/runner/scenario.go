package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
)

// Scenario injects faults in one way.
type Scenario struct {
	Name string
	// Size is the number of sessions of the workload; 0 means 24.
	Size int
	// Short makes the scenario part of `make test-all`.
	Short bool
	// Alone gives the scenario its own fleet and excludes it from a soak: it breaks more than the
	// runner can repair.
	Alone bool
	// Kind is the kind of fleet that it needs.
	Kind stage.Kind
	// Slack is added to the time that both sides have to agree; no factor scales it.
	Slack time.Duration
	// EndsProcesses means that it ends processes of hub or agents.
	EndsProcesses bool
	Do            func(context.Context, *Run) error
}

// Injection is an injected fault and its time.
type Injection struct {
	After time.Duration `json:"after"`
	What  string        `json:"what"`
}

// String returns the injection on one line.
func (i Injection) String() string { return fmt.Sprintf("+%.1fs %s", i.After.Seconds(), i.What) }

// Rounds is how often a scenario repeats a fault.
const Rounds = 3
