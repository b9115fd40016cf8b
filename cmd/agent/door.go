package main

import (
	goflag "flag"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/vdi-fleet/vdi-fleet/agent/door"
)

// doorCommand returns the command that runs before the desktops of a member.
func doorCommand() *cobra.Command {
	options := door.Options{Version: version}
	command := &cobra.Command{
		Use:   "door",
		Short: "Admit browsers to the desktops of a member, by passes of the console.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := ctrl.GetConfig()
			if err != nil {
				return err
			}
			return door.Run(cmd.Context(), cfg, options)
		},
	}
	options.AddFlags(command.Flags())
	// controller-runtime's flag for the member's kubeconfig.
	command.Flags().AddGoFlagSet(goflag.CommandLine)
	return command
}
