package console

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
)

// openPages is how many pages of a session are open, at both replicas.
const openPages = 6

// replicasKilled kills one replica after the other under the open pages of a session. Whoever has logged in stays
// so, every page shows the next state without being loaded again, and what a user does is done.
func replicasKilled(ctx context.Context, r *runner.Run) error {
	alice, err := visit(ctx, r, "alice")
	if err != nil {
		return err
	}
	for n := range 2 * runner.Rounds {
		action, shown := "suspend", suspended
		if n%2 == 1 {
			action, shown = "wake", running
		}
		replica := r.Fleet.Console.Replicas[n/2%len(r.Fleet.Console.Replicas)]
		within, cancel := context.WithTimeout(ctx, r.Scaled(time.Minute)+stage.Allowance)
		group, following := errgroup.WithContext(within)
		for range openPages {
			group.Go(func() error { return alice.follow(following, shown) })
		}
		if err := r.PauseRandomly(ctx, 5*time.Second); err != nil {
			cancel()
			return err
		}
		r.Record("kill -9 %s under %d open pages, and %s", replica.Spec.Name, openPages, action)
		began := time.Now()
		group.Go(func() error { return alice.act(following, action) })
		if err := replica.Kill(); err != nil {
			cancel()
			return err
		}
		err := group.Wait()
		cancel()
		if err != nil {
			return fmt.Errorf("not every page shows the session after %s: %w", action, err)
		}
		r.Record("every page shows it %s later", time.Since(began).Round(10*time.Millisecond))
		if err := alice.shows(ctx, r, shown); err != nil {
			return err
		}
	}
	return nil
}
