// Command console measures the console with many sessions, changes and open pages: `make scale-console` runs it.
// Sessions are objects whose statuses it writes itself, since the hub is paused; the console and its pages are the
// production ones. It fails if a change is seen late, or if the console needs more CPU or memory than its bounds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// options of a run.
type options struct {
	sessions, users, operators, rate int
	lasts                            time.Duration
	keep                             bool
}

func main() {
	o := options{}
	flag.IntVar(&o.sessions, "sessions", 10_000, "sessions, of the users in turn")
	flag.IntVar(&o.users, "users", 480, "users, each with an open page")
	flag.IntVar(&o.operators, "operators", 20, "open lists of all sessions")
	flag.IntVar(&o.rate, "rate", 1000, "changes of sessions a second, or as many as the machine writes")
	flag.DurationVar(&o.lasts, "lasts", time.Minute, "how long sessions change")
	flag.BoolVar(&o.keep, "keep", false, "keep the fleet's directory with all logs")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale-console:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	b, err := start(ctx, o)
	if b != nil {
		defer func() { err = errors.Join(err, b.fleet.Stop()) }()
	}
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{b.create, b.pages, b.change} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(b.missed...); err != nil {
		return fmt.Errorf("bounds missed: %w", err)
	}
	fmt.Println("\nAll bounds are met.")
	return nil
}
