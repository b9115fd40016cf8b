// Command kubectl-vdi manages the members of a fleet, as `kubectl vdi`: join and install-agent
// add a cluster, revoke and allow set its access, rotate-ca rotates the hub's CA, explain
// explains placements, cordon, uncordon and drain set its scheduling, fence and unfence declare
// that it is off, and rebalance moves idle sessions to better members.
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
