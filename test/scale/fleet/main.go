package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// options of a run.
type options struct {
	members, sessions, templates int
	timeout                      time.Duration
	keep, short                  bool
}

func main() {
	o := options{}
	flag.IntVar(&o.members, "members", 100, "simulated members")
	flag.IntVar(&o.sessions, "sessions", 5000, "sessions to create at once")
	flag.IntVar(&o.templates, "templates", 100, "templates")
	flag.DurationVar(&o.timeout, "timeout", 3*time.Hour, "when to give up")
	flag.BoolVar(&o.short, "short", false, "for tests on machines of any speed: print how long decisions take, without a bound")
	flag.BoolVar(&o.keep, "keep", false, "keep the fleet's directory with all logs")
	flag.Parse()
	log.SetLogger(logr.Discard())
	// A thousand simulated members are one process: how long its garbage collections take is
	// not to be part of the times of their renewals. There is one before each step.
	debug.SetGCPercent(400)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	err := run(ctx, o)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale-fleet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	fmt.Printf("a hub of two replicas, %d members that are simulated, %d templates, %d sessions\n", o.members, o.templates, o.sessions)
	f, err := start(ctx, o)
	if f != nil {
		defer func() { err = errors.Join(err, f.close()) }()
	}
	if err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"the fleet at rest", f.rest},
		{"a burst of sessions", f.burst},
		{"the fleet at rest, with its sessions", f.rest},
		{"sessions at a slow rate", f.decide},
		{"pending sessions of 100 kinds", f.pending},
		{"an edit of a template", f.edit},
		{"all agents reconnect at once", f.reconnect},
		{"a tenth of the members is lost", f.lose},
		{"the leader's death", f.takeover}, // a new leader waits before it moves sessions of lost members
	} {
		fmt.Printf("\n%s\n", step.name)
		runtime.GC()
		began := time.Now()
		f.renewals.reset()
		if err := step.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		f.renewals.check(f)
		fmt.Printf("  done after %s\n", round(time.Since(began)))
	}
	if len(f.missed) > 0 {
		return fmt.Errorf("bounds missed: %w", errors.Join(f.missed...))
	}
	fmt.Println("\nAll bounds are met.")
	return nil
}
