// Command kindfleet starts and stops the fleet of kind clusters for `make kind-up` and `make
// kind-down`: see package kindfleet.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/vdi-fleet/vdi-fleet/test/e2e/kindfleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kind-up:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o kindfleet.Options
	root := &cobra.Command{Use: "kindfleet", SilenceUsage: true, SilenceErrors: true}
	root.PersistentFlags().StringVar(&o.Root, "root", ".", "Root of the repository.")
	up := &cobra.Command{
		Use: "up", Short: "Start the fleet, or bring it up to date.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Log = func(format string, args ...any) { fmt.Printf("kind-up: "+format+"\n", args...) }
			fleet, err := kindfleet.Up(cmd.Context(), o)
			if err != nil {
				return err
			}
			fmt.Printf("kind-up: export KUBECONFIG=%s # contexts hub", fleet.Kubeconfig())
			for _, member := range fleet.Members {
				fmt.Printf(", %s", member.Name)
			}
			fmt.Println()
			return nil
		},
	}
	flags := up.Flags()
	flags.StringVar(&o.NodeImage, "image", "", "Image of the nodes; empty: the one that make kind-image builds.")
	flags.StringVar(&o.HubImage, "hub-image", "", "Image of the hub, in Docker here.")
	flags.StringVar(&o.AgentImage, "agent-image", "", "Image of the agents, in Docker here.")
	flags.StringSliceVar(&o.Images, "load", nil, "More images to load into the members' nodes.")
	flags.Float64Var(&o.TimeFactor, "time-factor", 1, "Scales every timing of link and failover.")
	down := &cobra.Command{
		Use: "down", Short: "Remove the fleet.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return kindfleet.Down(cmd.Context(), o) },
	}
	root.AddCommand(up, down)
	return root
}
