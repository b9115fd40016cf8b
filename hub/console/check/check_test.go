package check

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not hold that %s", what)
		}
	}
}

func TestACheckIsRepeated(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	clock := clocktesting.NewFakeClock(time.Now())
	var changes atomic.Int32
	c := &Check{Of: "the policy", Clock: clock, Changed: func() { changes.Add(1) }, Run: func(context.Context) error {
		if broken.Load() {
			return errors.New("it is not installed")
		}
		return nil
	}}
	if err := c.Passed(); err == nil || err.Error() != "the policy has not been checked yet" {
		t.Errorf("before the first check: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = c.Start(ctx) }()
	eventually(t, "a check that fails says why", func() bool { return c.Passed() != nil && c.Passed().Error() == "it is not installed" })
	eventually(t, "it waits", clock.HasWaiters)
	if since := c.Failing(); since.IsZero() || changes.Load() != 1 {
		t.Errorf("it fails since %s, after %d changes", since, changes.Load())
	}
	broken.Store(false)
	clock.Step(retry)
	eventually(t, "it passes soon after", func() bool { return c.Passed() == nil })
	eventually(t, "it does not fail any more", func() bool { return c.Failing().IsZero() && changes.Load() == 2 })
	eventually(t, "it waits", clock.HasWaiters)
	broken.Store(true)
	clock.Step(every)
	eventually(t, "it fails again", func() bool { return c.Passed() != nil })
}
