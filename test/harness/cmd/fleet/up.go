package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
)

func upCommand(dir *string) *cobra.Command {
	var options harness.Options
	var gpus int
	var timeout time.Duration
	var pools []string
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a hub and its members in the background and wait until every member is Ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			options.Dir = *dir
			options.Console.Doors = options.Console.Doors && options.Console.Replicas > 0
			if options.GPUNodes = gpus; gpus == 0 {
				options.GPUNodes = -1
			}
			if err := addNodePools(&options, pools); err != nil {
				return err
			}
			progress := stopwatch()
			options.Progress = progress
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			fleet, err := harness.StartDetached(ctx, options, self)
			if err != nil {
				if cmd.Context().Err() != nil {
					return errors.New("interrupted: everything was stopped and removed")
				}
				return err
			}
			progress(fmt.Sprintf("the fleet is up: %d members", len(fleet.Members)))
			printFleet(fleet)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&options.Members, "members", 3, "number of members")
	flags.IntVar(&options.NodesPerMember, "nodes", 20, "simulated nodes of each member")
	flags.IntVar(&gpus, "gpu-nodes", 2, "nodes with four GPUs that the second member has besides")
	flags.StringSliceVar(&pools, "node-pool", nil, "MEMBER/NAME: a NodePool of a Karpenter in a member, for nodes of 16 cores with the label pool=NAME")
	flags.IntVar(&options.HubReplicas, "hub-replicas", 2, "processes of the hub")
	flags.IntVar(&options.Console.Replicas, "consoles", 2, "processes of the console")
	flags.IntVar(&options.Console.Port, "console-port", 8088, "port of the console; 0 for any")
	flags.BoolVar(&options.Console.Doors, "doors", true, "a door in each member, so that the console shows the desktops")
	flags.StringSliceVar(&options.Namespaces, "namespaces", []string{"desktops"}, "namespaces that may hold sessions")
	flags.Float64Var(&options.TimeFactor, "time-factor", 1, "scale of the timings of hub and agents")
	flags.BoolVar(&options.Enroll, "enroll", true, "the agents join a hub that is its own certificate authority; else they use certificates of the harness")
	flags.StringSliceVar(&options.Args.Hub, "hub-arg", nil, "flag to add to the hub's")
	flags.StringSliceVar(&options.Args.Agents, "agent-arg", nil, "flag to add to the agents'")
	flags.StringSliceVar(&options.Args.Console, "console-arg", nil, "flag to add to the consoles'")
	flags.BoolVar(&options.Kubelets, "kubelets", true, "simulate the members' kubelets, with probes, guards, grace and a page for each desktop, instead of KWOK's Pods")
	flags.StringSliceVar(&options.Args.Kubelets, "kubelet-arg", nil, "flag to add to the members' kubelets")
	flags.DurationVar(&timeout, "timeout", 3*time.Minute, "fail, and remove everything, if it is not up by then")
	flags.BoolVar(&options.NoFleetProcesses, "no-fleet-processes", false, "start the control planes only, without hub and agents")
	return cmd
}

// printFleet prints how to use a fleet.
func printFleet(fleet *harness.Fleet) {
	fmt.Printf("\nexport KUBECONFIG=%s\n", fleet.Kubeconfig)
	fmt.Printf("contexts: hub%s\n", contexts(fleet))
	fmt.Printf("logs: %s\n", relative(filepath.Join(fleet.Dir, "logs")))
	if fleet.Console != nil && fleet.Console.URL != "" {
		fmt.Printf("\nconsole: %s\nusers: %s; the password is the name\n", fleet.Console.URL, strings.Join(logins(), ", "))
	}
}

// registrationDelay is the time from the launch of a node of a NodePool until it registers.
const registrationDelay = 5 * time.Second

// addNodePools adds NodePools of the form MEMBER/NAME.
func addNodePools(options *harness.Options, pools []string) error {
	for _, of := range pools {
		member, name, ok := strings.Cut(of, "/")
		if !ok {
			return fmt.Errorf("--node-pool %s is not of the form MEMBER/NAME", of)
		}
		err := options.AddNodePool(member, karpenter.NodePool{
			Name: name, Labels: map[string]string{"pool": name}, InstanceTypes: []string{"standard-16"}, RegistrationDelay: registrationDelay,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// stopwatch returns a function that prints steps with the time since now.
func stopwatch() func(string) {
	start := time.Now()
	var mu sync.Mutex
	return func(step string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf("[%5.1fs] %s\n", time.Since(start).Seconds(), step)
	}
}

func contexts(fleet *harness.Fleet) string {
	names := ""
	for _, member := range fleet.Members {
		names += ", " + member.Name
	}
	for _, user := range harness.Users {
		names += ", " + user.Context
	}
	return names
}

// logins returns the names by which users log in to the console.
func logins() []string {
	out := make([]string, 0, len(harness.Users))
	for _, user := range harness.Users {
		name, _, _ := strings.Cut(user.Name, "@")
		out = append(out, name)
	}
	return out
}

// relative shortens a path for people.
func relative(path string) string {
	if dir, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(short) {
			return short
		}
	}
	return path
}
