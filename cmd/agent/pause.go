package main

import (
	"github.com/spf13/cobra"

	"github.com/vdi-fleet/vdi-fleet/agent/buffer"
)

// pauseCommand returns the command of the Pods that keep slots free.
func pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   buffer.Pause,
		Short: "Do nothing until the Pod ends, which keeps a slot of a buffer.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
}
