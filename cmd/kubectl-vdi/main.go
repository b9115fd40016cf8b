// Command kubectl-vdi manages the members of a fleet, as `kubectl vdi`: join and install-agent
// add a cluster, revoke and allow set whether its agent may connect to the hub, rotate-ca
// replaces the hub's certificate authority, explain reports where a session would be placed and
// why, cordon, uncordon and drain take a member out of use and back, fence and unfence declare
// that one is off, and rebalance moves idle sessions to better members.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand(&cluster{}).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", escaped(err.Error()))
		os.Exit(1)
	}
}
