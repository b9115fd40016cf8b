package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/vdi-fleet/vdi-fleet/agent/guard"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
)

// guardCommand returns the command that runs beside a fenced desktop.
func guardCommand() *cobra.Command {
	var options guard.Options
	command := &cobra.Command{
		Use:   "guard",
		Short: "Answer the liveness probe of one desktop while its lease is valid.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if options.PodIP == "" {
				options.PodIP = os.Getenv(render.EnvPodIP)
			}
			return runGuard(cmd.Context(), options)
		},
	}
	options.AddFlags(command.Flags())
	return command
}

func runGuard(ctx context.Context, options guard.Options) error {
	g, err := guard.New(options)
	if err != nil {
		return fmt.Errorf("starting the guard: %w", err)
	}
	return g.Run(ctx)
}
