package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/proxy"
)

func printStatus(out io.Writer, fleet *harness.Detached) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "PROCESS\tSTATE\tPID")
	names := make([]string, 0, len(fleet.Processes))
	for name := range fleet.Processes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		process := fleet.Processes[name]
		fmt.Fprintf(table, "%s\t%s\t%d\n", name, process.State(), process.PID())
	}
	fmt.Fprintln(table, "\nMEMBER\tLINK\tCONNECTIONS")
	for _, member := range fleet.Members {
		link, err := fleet.Link(member)
		if err != nil {
			return err
		}
		status, err := link.Status()
		if err != nil {
			fmt.Fprintf(table, "%s\tno proxy: %v\t\n", member, err)
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%d\n", member, describe(status), status.Connections)
	}
	return table.Flush()
}

func describe(status proxy.Status) string {
	switch {
	case status.Cut != "":
		return "cut (" + string(status.Cut) + ")"
	case status.Latency > 0 || status.BytesPerSecond > 0:
		return fmt.Sprintf("slow (%s, %d bytes/s)", status.Latency, status.BytesPerSecond)
	}
	return "whole"
}
