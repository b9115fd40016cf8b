package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// every is how often a check that passed is repeated, and retry how soon one that did not.
	every = 10 * time.Minute
	retry = 5 * time.Second
)

// Check is a check that is repeated for as long as the process runs (manager.Runnable).
type Check struct {
	// Of names what is checked, in the log and in errors.
	Of string
	// Run returns why the check does not pass, or nil.
	Run   func(context.Context) error
	Clock clock.WithTicker
	// Every is how often a check that passed is repeated; 10 minutes by default.
	Every time.Duration
	// Changed is called once the check passes, or does not any more; nil for nothing.
	Changed func()

	failure atomic.Pointer[string]
	failing atomic.Pointer[time.Time]
}

// NeedLeaderElection returns false: each replica checks.
func (c *Check) NeedLeaderElection() bool { return false }

// Start checks until the context ends.
func (c *Check) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		wait, failure := cmp.Or(c.Every, every), ""
		if err := c.Run(ctx); err != nil {
			wait, failure = retry, err.Error()
		}
		if previous := c.failure.Swap(&failure); failure != "" && (previous == nil || *previous != failure) {
			log.FromContext(ctx).Info("A check does not pass", "check", c.Of, "cause", failure)
		}
		c.turn(failure != "")
		select {
		case <-ctx.Done():
		case <-c.Clock.After(wait):
		}
	}
	return nil
}

// turn records since when the check does not pass.
func (c *Check) turn(fails bool) {
	if fails == !c.Failing().IsZero() {
		return
	}
	var since time.Time
	if fails {
		since = c.Clock.Now()
	}
	c.failing.Store(&since)
	if c.Changed != nil {
		c.Changed()
	}
}

// Failing returns since when the check has not passed, zero if the last one did or there was none.
func (c *Check) Failing() time.Time {
	if since := c.failing.Load(); since != nil {
		return *since
	}
	return time.Time{}
}

// Passed returns nil if the last check passed, else why not.
func (c *Check) Passed() error {
	switch failure := c.failure.Load(); {
	case failure == nil:
		return fmt.Errorf("%s has not been checked yet", c.Of)
	case *failure != "":
		return errors.New(*failure)
	}
	return nil
}
