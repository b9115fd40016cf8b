package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/hubservice"
	"github.com/vdi-fleet/vdi-fleet/test/harness/provisioner"
	"github.com/vdi-fleet/vdi-fleet/test/harness/proxy"
	"github.com/vdi-fleet/vdi-fleet/test/harness/router"
)

// proxyCommand runs the network between the hub and one member of a detached fleet.
func proxyCommand() *cobra.Command {
	var listen, control, kubeconfig string
	var hubPods []string
	cmd := &cobra.Command{
		Use:    "proxy",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			backend := func() string { return "" } // there is no hub
			if len(hubPods) > 0 {
				config, pods, err := hubFlags(kubeconfig, hubPods)
				if err != nil {
					return err
				}
				service, err := hubservice.Watch(cmd.Context(), config, harness.SystemNamespace, pods)
				if err != nil {
					return err
				}
				backend = service.Backend
			}
			link, err := proxy.StartTo(listen, backend)
			if err != nil {
				return err
			}
			return proxy.ServeControl(cmd.Context(), control, link)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "address for the agent")
	cmd.Flags().StringVar(&control, "control", "", "address of the control endpoint")
	addHubFlags(cmd, &kubeconfig, &hubPods)
	return cmd
}

// hubKubeletCommand reports which hub replicas of a detached fleet are Ready.
func hubKubeletCommand() *cobra.Command {
	var kubeconfig string
	var hubPods []string
	cmd := &cobra.Command{
		Use:    "hub-kubelet",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, pods, err := hubFlags(kubeconfig, hubPods)
			if err != nil {
				return err
			}
			return hubservice.Kubelet(cmd.Context(), config, harness.SystemNamespace, pods)
		},
	}
	addHubFlags(cmd, &kubeconfig, &hubPods)
	return cmd
}

func addHubFlags(cmd *cobra.Command, kubeconfig *string, pods *[]string) {
	cmd.Flags().StringVar(kubeconfig, "hub-kubeconfig", "", "kubeconfig of the hub")
	cmd.Flags().StringSliceVar(pods, "hub-pod", nil, "NAME=LINK=PROBE: a Pod of the hub and the addresses of its process")
}

func hubFlags(kubeconfig string, values []string) (*rest.Config, []hubservice.Pod, error) {
	pods, err := hubservice.ParsePods(values)
	if err != nil {
		return nil, nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	return config, pods, nil
}

// provisionCommand provisions the volumes of a member of a detached fleet.
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
			volumes, err := provisioner.Start(cmd.Context(), config)
			if err != nil {
				return err
			}
			<-cmd.Context().Done()
			volumes.Stop()
			return nil
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the member")
	return cmd
}

// routerCommand leads browsers to the consoles of a detached fleet.
func routerCommand() *cobra.Command {
	var listen string
	var values []string
	cmd := &cobra.Command{
		Use:    "router",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			routes := make([]router.Route, 0, len(values))
			for _, value := range values {
				route, err := router.ParseRoute(value)
				if err != nil {
					return err
				}
				routes = append(routes, route)
			}
			r, err := router.Start(listen, routes...)
			if err != nil {
				return err
			}
			<-cmd.Context().Done()
			return r.Stop()
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "", "address for browsers")
	cmd.Flags().StringArrayVar(&values, "route", nil, "HOST=ADDRESS,ADDRESS")
	return cmd
}
