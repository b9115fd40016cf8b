package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/vdi-fleet/vdi-fleet/agent/guard"
)

// gateCommand runs before a desktop.
func gateCommand() *cobra.Command {
	var asking guard.Asking
	command := &cobra.Command{
		Use:   "gate",
		Short: "Wait before one desktop, and end once the agent says that it may start.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runGate(cmd.Context(), asking)
		},
	}
	asking.AddFlags(command.Flags())
	return command
}

func runGate(ctx context.Context, asking guard.Asking) error {
	g, err := guard.NewGate(asking)
	if err != nil {
		return fmt.Errorf("starting the gate: %w", err)
	}
	return g.Run(ctx)
}
