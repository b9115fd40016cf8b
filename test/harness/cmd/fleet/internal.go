package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// proxyCommand is the network between the hub and one member of a fleet in the
// background.
func proxyCommand() *cobra.Command {
	var listen, control string
	var backends []string
	cmd := &cobra.Command{
		Use:    "proxy",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			proxy, err := harness.StartProxy(listen, backends)
			if err != nil {
				return err
			}
			return harness.ServeProxyControl(cmd.Context(), control, proxy)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "address for the agent")
	cmd.Flags().StringVar(&control, "control", "", "address of the control endpoint")
	cmd.Flags().StringSliceVar(&backends, "backend", nil, "link address of a hub replica")
	return cmd
}

// provisionCommand makes the volumes of a member of a fleet in the background.
func provisionCommand() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use:    "provision",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("reading kubeconfig: %w", err)
			}
			config.QPS, config.Burst = 1000, 2000
			provisioner, err := harness.StartProvisioner(cmd.Context(), config)
			if err != nil {
				return err
			}
			<-cmd.Context().Done()
			provisioner.Stop()
			return nil
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the member")
	return cmd
}
