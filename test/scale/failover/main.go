// Command failover measures the failover of many sessions of a member in a fleet of
// real control planes: `make failover` runs it. From the member's death until the
// last session runs elsewhere it separates the phases (detected, decided, assigned,
// Running), and in each the configured waits from the time that hub and agents
// take themselves.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

func main() {
	sessions := flag.Int("sessions", 500, "sessions of the member that dies")
	members := flag.Int("members", 3, "members of the fleet")
	nodes := flag.Int("nodes", 20, "nodes of each member")
	factor := flag.Float64("time-factor", 0.2, "what the timings of hub and agents are scaled by; the rates of the failover rate limit are not")
	keep := flag.Bool("keep", false, "keep the fleet's directory with all logs")
	growing := flag.Bool("growing", false, "a fleet of three members of which one has few free slots and adds nodes by a real Karpenter")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var specs []harness.MemberSpec
	if *growing {
		specs = growingMembers(*nodes)
	}
	err := run(ctx, *sessions, *growing, harness.Options{
		MemberSpecs: specs, Members: *members, NodesPerMember: *nodes, GPUNodes: -1, TimeFactor: *factor, Keep: *keep, Kubelets: true,
		Progress: func(step string) { fmt.Println("  " + step) },
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, sessions int, growing bool, options harness.Options) (err error) {
	fleet, err := harness.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	l, err := newLoss(ctx, fleet, sessions, options.TimeFactor)
	if err != nil {
		return err
	}
	steps := []func(context.Context) error{l.fill, l.awaitRegain, l.lose, l.watch, l.print}
	if growing {
		g := newGrowth(l)
		l.atOneTarget = sessions - freeElsewhere
		steps = []func(context.Context) error{g.declare, l.fill, l.awaitRegain, l.lose, g.watch, l.print, g.check}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}
