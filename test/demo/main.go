// Command demo shows a fleet at work on this machine: `make demo` runs it. It
// drives the fleet with kubectl alone, as a user would, prints what it does at
// each step, and exits non-zero as soon as anything is not as it claims.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// timeFactor scales the timings of hub and agents, so that a lost member is detected in seconds.
const timeFactor = "0.1"

// scaled returns a production time in the time of this fleet.
func scaled(d time.Duration) time.Duration { return d / 10 }

// limit ends a demo that hangs.
const limit = 10 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := run(ctx, os.Getenv("KEEP") != ""); err != nil {
		fmt.Fprintf(os.Stderr, "\nThe demo failed: %v\n", err)
		stop()
		os.Exit(1) //nolint:gocritic // everything was stopped by run
	}
}

func run(ctx context.Context, keep bool) (err error) {
	began := time.Now()
	d := &demo{console: console{dir: ".fleet"}}
	d.announce("Starting a fleet: a hub and three members in three regions, all real control planes with simulated nodes (timings x %s)", timeFactor)
	if err := d.fleet(ctx, "up", "--members", "3", "--nodes", "20", "--console-port", "0", "--time-factor", timeFactor, "--node-pool", grows+"/"+nodePool); err != nil {
		return err
	}
	defer func() {
		if keep && err == nil {
			fmt.Printf("\nKEEP is set: the fleet is still up. Try  bin/kubectl --kubeconfig %s/kubeconfig --context hub get vdisessions -A  and end it with  make down\n", d.dir)
			return
		}
		// The context may have ended; what was started is stopped nevertheless.
		if e := d.fleet(context.Background(), "down"); e != nil && err == nil {
			err = e
		}
	}()
	alice := &visits{demo: d}
	for _, step := range []func(context.Context) error{
		d.members, d.samples, d.onePodEach, alice.open, alice.wake, d.ownership, d.unplaceable, d.declareNodes, d.grow, d.brokenImage,
		d.expire, d.extend, d.suspend, d.resume, d.failure, d.loseAgent,
		d.fillRegion, d.loseRegion, alice.sameAddress, d.regionBack, d.delete,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	fmt.Printf("\nAll as claimed, in %s.\n", time.Since(began).Round(time.Second))
	return nil
}
