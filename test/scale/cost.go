package main

import (
	"context"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// fleetProcesses returns the processes of hub and agents, by name.
func (m *measurement) fleetProcesses() map[string]*harness.Process {
	processes := map[string]*harness.Process{}
	for i, r := range m.fleet.Hub.Replicas {
		processes[fmt.Sprintf("hub-%d", i)] = r.Process
	}
	for _, member := range m.fleet.Members {
		processes["agent of "+member.Name] = member.Agent.Process
	}
	return processes
}

func (m *measurement) cpuTimes() map[string]time.Duration {
	times := map[string]time.Duration{}
	for name, p := range m.fleetProcesses() {
		times[name] = p.CPUTime()
	}
	return times
}

// cost prints CPU time and memory of hub and agents.
func (m *measurement) cost(context.Context) error {
	var sum time.Duration
	fmt.Println("\nprocess                 cpu      cpu a session   resident")
	for name, after := range m.cpuTimes() {
		used := after - m.cpu[name]
		sum += used
		fmt.Printf("%-20s  %6s   %9s       %4d MiB\n", name, round(used), (used / time.Duration(m.sessions)).Round(10*time.Microsecond), m.fleetProcesses()[name].Resident()>>20)
	}
	per := func(d time.Duration) time.Duration {
		return (d / time.Duration(m.sessions)).Round(10 * time.Microsecond)
	}
	fmt.Printf("hub and agents together: %s of CPU a session; the control planes: %s\n", per(sum), per(m.controlPlanes()-m.theirs))
	return nil
}

// controlPlanes returns the CPU time of all other processes.
func (m *measurement) controlPlanes() time.Duration {
	var sum time.Duration
	for _, p := range m.fleet.Processes() {
		sum += p.CPUTime()
	}
	for _, d := range m.cpuTimes() {
		sum -= d
	}
	return sum
}
