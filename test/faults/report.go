package faults

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
)

// verdict returns how a scenario ended, in one token.
func verdict(r runner.Result) string {
	if r.Failed != "" {
		return "FAILED"
	}
	return "kept"
}

// runCounts returns the columns with what ran according to the kubelets' logs.
func runCounts(r runner.Result) string {
	if !r.Observed {
		return "-\t-"
	}
	return fmt.Sprintf("%d\t%d", r.Desktops, r.Twice)
}

// printReport writes the table, and below it the failures.
func printReport(out io.Writer, rows []runner.Result) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "scenario\tguarantees\tinjected\tboth agree after\tall runs after\ttook\tchanges\tseen\trestarts\tdesktops\tran twice")
	for _, r := range rows {
		did := 0
		for n := range maps.Values(r.Changes) {
			did += n
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", r.Scenario, verdict(r), len(r.Injected),
			seconds(r.Agreed), seconds(r.Running), seconds(r.Took), did, r.Observations, r.Restarts, runCounts(r))
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(out, "desktops, ran twice: by an observer of the simulated kubelets' logs; G1 allows Restart sessions to run twice across members of which one is away")
	for _, r := range rows {
		if r.Failed == "" {
			continue
		}
		_, _ = fmt.Fprintf(out, "\nFAILED: %s (FOCUS=%q SEED=%d FACTOR=%v)\n  %s\n", r.Scenario, r.Scenario, r.Seed, r.Factor,
			strings.ReplaceAll(r.Failed, "\n", "\n  "))
		for _, v := range r.Violations {
			_, _ = fmt.Fprintf(out, "  %s\n", v)
			for _, line := range v.Trail {
				_, _ = fmt.Fprintf(out, "    %s\n", line)
			}
		}
		for _, i := range r.Injected {
			_, _ = fmt.Fprintf(out, "  injected %s\n", i)
		}
	}
}

func seconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

// writeReport writes the rows as JSON, durations in nanoseconds.
func writeReport(path string, rows []runner.Result) error {
	content, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return os.WriteFile(path, append(content, '\n'), 0o644)
}

// failures returns the names of the scenarios that failed.
func failures(rows []runner.Result) []string {
	var names []string
	for _, r := range rows {
		if r.Failed != "" {
			names = append(names, r.Scenario)
		}
	}
	slices.Sort(names)
	return names
}
