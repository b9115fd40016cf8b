// Command hub runs a replica of the hub: see package hub. Its subcommand console serves the pages on which
// people get their desktops: see package hub/console.
package main

import (
	goflag "flag"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/vdi-fleet/vdi-fleet/hub"
	"github.com/vdi-fleet/vdi-fleet/hub/console"
	"github.com/vdi-fleet/vdi-fleet/proto/logging"
)

// version is set by the linker.
var version = "dev"

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		ctrl.Log.Error(err, "The hub exited")
		os.Exit(1)
	}
}

func command() *cobra.Command {
	options := hub.Options{Version: version}
	var logs zap.Options
	root := &cobra.Command{
		Use:           "hub",
		Short:         "Run a replica of the hub.",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRun: func(*cobra.Command, []string) {
			ctrl.SetLogger(logging.New(&logs))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := ctrl.GetConfig()
			if err != nil {
				return err
			}
			return hub.Run(cmd.Context(), cfg, options)
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	options.AddFlags(root.Flags())
	// controller-runtime's flag for the kubeconfig, and those of the log.
	root.PersistentFlags().AddGoFlagSet(goflag.CommandLine)
	flags := goflag.NewFlagSet("logs", goflag.ContinueOnError)
	logs.BindFlags(flags)
	root.PersistentFlags().AddGoFlagSet(flags)
	root.AddCommand(consoleCommand())
	return root
}

// consoleCommand returns the command that serves the console.
func consoleCommand() *cobra.Command {
	options := console.Options{Version: version}
	command := &cobra.Command{
		Use:   "console",
		Short: "Serve the pages on which people get their desktops.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := ctrl.GetConfig()
			if err != nil {
				return err
			}
			return console.Run(cmd.Context(), cfg, options)
		},
	}
	options.AddFlags(command.Flags())
	return command
}
