// Command fleet runs a fleet of real control planes in the background, for
// `make up`, `make down` and `make demo`, and breaks it on demand.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "fleet",
		Short:         "Run a fleet of real Kubernetes control planes on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	dir := root.PersistentFlags().String("dir", ".fleet", "directory of the fleet")
	root.AddCommand(upCommand(dir), downCommand(dir), statusCommand(dir), auditCommand(dir))
	root.AddCommand(linkCommands(dir)...)
	root.AddCommand(processCommands(dir)...)
	root.AddCommand(powerCommands(dir)...)
	root.AddCommand(proxyCommand(), hubKubeletCommand(), provisionCommand(), kubeletCommand(), routerCommand())
	return root
}

func downCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End every process of the fleet and remove its directory",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fleet, err := harness.Attach(*dir)
			if errors.Is(err, harness.ErrNoFleet) {
				fmt.Println("no fleet is up")
				return nil
			} else if err != nil {
				return err
			}
			running := len(fleet.Running())
			if err := fleet.Down(); err != nil {
				return err
			}
			fmt.Printf("ended %d processes and removed %s\n", running, fleet.Dir)
			return nil
		},
	}
}

func statusCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "List the fleet's processes and the links of its members",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fleet, err := harness.Attach(*dir)
			if err != nil {
				return err
			}
			return printStatus(os.Stdout, fleet)
		},
	}
}
