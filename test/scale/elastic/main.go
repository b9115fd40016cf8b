// Command elastic measures a fleet whose members have no nodes: `make scale-elastic` runs it. A burst of
// sessions makes the members grow by real Karpenters, whose cloud takes a while for each node. It fails
// if a session is moved, if more nodes are added than the sessions need, or if more is written for them.
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
	members, sessions int
	delay             time.Duration
	keep              bool
}

func main() {
	o := options{}
	flag.IntVar(&o.members, "members", 3, "members of the fleet, without nodes")
	flag.IntVar(&o.sessions, "sessions", 300, "sessions to create at once")
	flag.DurationVar(&o.delay, "delay", 20*time.Second, "time from the launch of an instance until its node exists, in whole seconds")
	flag.BoolVar(&o.keep, "keep", false, "keep the fleet's directory with all logs")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale-elastic:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	f, err := start(ctx, o)
	if f != nil {
		defer func() { err = errors.Join(err, f.Stop()) }()
	}
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{f.declare, f.mark, f.burst, f.checkNodes, f.checkWrites} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(f.missed...); err != nil {
		return fmt.Errorf("bounds missed: %w", err)
	}
	fmt.Println("\nAll bounds are met.")
	return nil
}
