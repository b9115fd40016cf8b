package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/proxy"
)

// linkCommands returns the commands that break and restore the network of a member.
func linkCommands(dir *string) []*cobra.Command {
	var mode string
	cut := linkCommand(dir, "cut", "Cut the network between the hub and a member", "%s is cut off",
		func(link proxy.Link) error { return link.Cut(proxy.CutMode(mode)) })
	cut.Flags().StringVar(&mode, "mode", string(proxy.CutBlackhole), "reset, blackhole, to-hub (nothing reaches the hub) or to-agent")

	var latency time.Duration
	var rate int
	slow := linkCommand(dir, "slow", "Slow the network between the hub and a member", "%s is slow",
		func(link proxy.Link) error { return link.Slow(latency, rate) })
	slow.Flags().DurationVar(&latency, "latency", 200*time.Millisecond, "delay of each direction")
	slow.Flags().IntVar(&rate, "bytes-per-second", 0, "limit of each direction, 0 is none")

	return []*cobra.Command{
		cut,
		slow,
		linkCommand(dir, "heal", "Mend the network between the hub and a member", "%s is connected", proxy.Link.Heal),
		linkCommand(dir, "drop", "Reset the connections between the hub and a member", "the connections of %s are reset",
			proxy.Link.DropConnections),
	}
}

func linkCommand(dir *string, name, short, done string, do func(proxy.Link) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " MEMBER",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			fleet, err := harness.Attach(*dir)
			if err != nil {
				return err
			}
			link, err := fleet.Link(args[0])
			if err != nil {
				return err
			}
			if err := do(link); err != nil {
				return err
			}
			fmt.Printf(done+"\n", args[0])
			return nil
		},
	}
}

// processCommands returns the commands that kill, pause and start processes by name.
func processCommands(dir *string) []*cobra.Command {
	agent := (*harness.Detached).Agent
	named := (*harness.Detached).Process
	return []*cobra.Command{
		processCommand(dir, "kill-agent MEMBER", "Kill a member's agent (SIGKILL)", "killed", agent, (*harness.Process).Kill),
		processCommand(dir, "start-agent MEMBER", "Start a member's agent again", "started", agent, (*harness.Process).Start),
		processCommand(dir, "kill PROCESS", "Kill a process (SIGKILL)", "killed", named, (*harness.Process).Kill),
		processCommand(dir, "start PROCESS", "Start a process again, with its data", "started", named, (*harness.Process).Start),
		processCommand(dir, "restart PROCESS", "Stop a process (SIGTERM) and start it again", "restarted", named, (*harness.Process).Restart),
		processCommand(dir, "pause PROCESS", "Freeze a process (SIGSTOP)", "paused", named, (*harness.Process).Pause),
		processCommand(dir, "resume PROCESS", "Continue a frozen process (SIGCONT)", "resumed", named, (*harness.Process).Resume),
	}
}

func processCommand(dir *string, use, short, done string,
	find func(*harness.Detached, string) (*harness.Process, error), do func(*harness.Process) error,
) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			fleet, err := harness.Attach(*dir)
			if err != nil {
				return err
			}
			process, err := find(fleet, args[0])
			if err != nil {
				return err
			}
			if err := do(process); err != nil {
				return err
			}
			fmt.Printf("%s %s (pid %d)\n", done, process.Spec.Name, process.PID())
			return nil
		},
	}
}
