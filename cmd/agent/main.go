// Command agent runs the agent of a member cluster: see package agent. Its subcommands guard
// and gate run beside a fenced desktop and before a held one: see package agent/guard. door
// admits browsers to desktops: see package agent/door. pause runs in Pods that keep slots free:
// see package agent/buffer.
package main

import (
	goflag "flag"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/vdi-fleet/vdi-fleet/agent"
	"github.com/vdi-fleet/vdi-fleet/proto/logging"
)

// version is set by the linker.
var version = "dev"

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		ctrl.Log.Error(err, "The agent exited")
		os.Exit(1)
	}
}

func command() *cobra.Command {
	options := agent.Options{Version: version}
	var logs zap.Options
	root := &cobra.Command{
		Use:           "agent",
		Short:         "Run the agent of a member cluster.",
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
			return agent.Run(cmd.Context(), cfg, options)
		},
	}
	root.CompletionOptions.DisableDefaultCmd = true
	options.AddFlags(root.Flags())
	// controller-runtime's flag for the member's kubeconfig.
	root.Flags().AddGoFlagSet(goflag.CommandLine)
	flags := goflag.NewFlagSet("logs", goflag.ContinueOnError)
	logs.BindFlags(flags)
	root.PersistentFlags().AddGoFlagSet(flags)
	root.AddCommand(guardCommand(), gateCommand(), pauseCommand(), doorCommand())
	return root
}
