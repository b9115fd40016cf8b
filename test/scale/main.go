// Command scale measures a fleet of real control planes under a burst of
// sessions: `make scale` runs it. It prints how soon they run and what they
// cost, in counts that do not depend on the machine where possible, and fails
// if a goal of docs/design.md, section 10 that can be counted is missed.
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

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

func main() {
	sessions := flag.Int("sessions", 300, "sessions to create at once")
	members := flag.Int("members", 3, "members of the fleet")
	nodes := flag.Int("nodes", 20, "nodes of each member")
	idle := flag.Duration("idle", time.Minute, "how long to watch the idle fleet for writes")
	template := flag.String("template", "browser", "template of the sessions, of deploy/samples")
	baseline := flag.Bool("baseline", true, "measure a bare client loop too, on control planes of its own, before")
	floor := flag.Bool("peer-floor", true, "with the baseline, measure a bare loop of the Pods, Services and Ingresses that any operator must write")
	userRoles := flag.Bool("user-roles", true, "have the hub keep Roles of users")
	keep := flag.Bool("keep", false, "keep the fleet's directory with all logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *sessions, *template, *idle, *baseline, *floor, harness.Options{
		Members: *members, NodesPerMember: *nodes, Keep: *keep,
		Args:     harness.Args{Hub: []string{fmt.Sprintf("--user-roles=%t", *userRoles)}},
		Progress: func(step string) { fmt.Println("  " + step) },
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, sessions int, template string, idle time.Duration, baseline, floor bool, options harness.Options) (err error) {
	var bare bareTimes
	if baseline {
		if bare, err = runBare(ctx, sessions, template, floor, options); err != nil {
			return fmt.Errorf("measuring the bare loops: %w", err)
		}
	}
	fleet, err := harness.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	m, err := newMeasurement(ctx, fleet, sessions, template)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		m.unloaded, m.create, m.count, m.writes, m.reconciles, m.cost,
		func(ctx context.Context) error { return m.idle(ctx, idle) },
		m.calm,
		m.delete,
		m.placements,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	bare.compare(m.took)
	return m.verdict()
}
