package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/vdi-fleet/vdi-fleet/agent/guard"
)

// gateCommand returns the command that runs before a held desktop.
func gateCommand() *cobra.Command {
	var options guard.ClientOptions
	command := &cobra.Command{
		Use:   "gate",
		Short: "Wait until the agent permits the start of one desktop.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runGate(cmd.Context(), options)
		},
	}
	options.AddFlags(command.Flags())
	return command
}

func runGate(ctx context.Context, options guard.ClientOptions) error {
	g, err := guard.NewGate(options)
	if err != nil {
		return fmt.Errorf("starting the gate: %w", err)
	}
	return g.Run(ctx)
}
