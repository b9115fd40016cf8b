package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// ticksPerSecond is the unit of CPU time in /proc: USER_HZ, 100 on every Linux
// that Go supports.
const ticksPerSecond = 100

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
		times[name] = cpuTime(p.PID())
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
		fmt.Printf("%-20s  %6s   %9s       %4d MiB\n", name, round(used), (used / time.Duration(m.sessions)).Round(10*time.Microsecond), resident(m.fleetProcesses()[name].PID())>>20)
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
		sum += cpuTime(p.PID())
	}
	for _, d := range m.cpuTimes() {
		sum -= d
	}
	return sum
}

// cpuTime returns the user and system time of a process (proc(5), stat, fields 14
// and 15).
func cpuTime(pid int) time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

// resident returns the resident memory of a process in bytes.
func resident(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
