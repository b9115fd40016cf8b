package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kubelet"
)

// kubeletCommand simulates the kubelets of a member: killing it is a power cut.
func kubeletCommand() *cobra.Command {
	var options kubelet.Options
	var kubeconfig string
	cmd := &cobra.Command{
		Use:    "kubelet",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("reading kubeconfig: %w", err)
			}
			config.QPS, config.Burst = 1000, 2000
			options.Config = config
			return kubelet.Run(cmd.Context(), options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the member")
	flags.StringVar(&options.Member, "member", "", "the member's name")
	flags.StringVar(&options.Log, "log", "", "file for the starts and ends of containers")
	flags.StringVar(&options.Guard, "guard", "bin/agent", "executable of guards")
	flags.DurationVar(&options.Second, "second", time.Second, "how long one second of a Pod's spec takes")
	flags.DurationVar(&options.StartDelay, "start-delay", 200*time.Millisecond, "how long a desktop takes to open its port")
	flags.DurationVar(&options.StopDelay, "stop-delay", 200*time.Millisecond, "how long a desktop takes to save its work")
	return cmd
}

// powerCommands returns the commands that cut and restore the power of a member.
func powerCommands(dir *string) []*cobra.Command {
	power := func(use, short, done string, do func(*cobra.Command, *harness.Detached, string) error) *cobra.Command {
		return &cobra.Command{
			Use: use, Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				fleet, err := harness.Attach(*dir)
				if err != nil {
					return err
				}
				if err := do(cmd, fleet, args[0]); err != nil {
					return err
				}
				fmt.Printf(done+"\n", args[0])
				return nil
			},
		}
	}
	return []*cobra.Command{
		power("power-off MEMBER", "Kill every process of a member at once", "%s has no power",
			func(_ *cobra.Command, fleet *harness.Detached, member string) error { return fleet.PowerOff(member) }),
		power("power-on MEMBER", "Start what power-off has killed", "%s has power",
			func(cmd *cobra.Command, fleet *harness.Detached, member string) error {
				return fleet.PowerOn(cmd.Context(), member)
			}),
	}
}
