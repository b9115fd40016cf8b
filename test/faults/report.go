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
)

// row is a scenario in the report.
type row struct {
	Scenario string         `json:"scenario"`
	Seed     uint64         `json:"seed"`
	Factor   float64        `json:"factor"`
	Injected []injection    `json:"injected,omitempty"`
	Did      map[string]int `json:"did,omitempty"`
	Agreed   time.Duration  `json:"agreed,omitempty"`
	Running  time.Duration  `json:"running,omitempty"`
	Took     time.Duration  `json:"took,omitempty"`
	Heard    int            `json:"heard,omitempty"`
	Restarts int            `json:"restarts,omitempty"`
	// Desktops that were started, and how often two of a Restart session ran in two
	// members at once, by the kubelets' logs; of scenarios that have them.
	Observed   bool        `json:"observed,omitempty"`
	Desktops   int         `json:"desktops,omitempty"`
	Twice      int         `json:"twice,omitempty"`
	Violations []violation `json:"violations,omitempty"`
	Failed     string      `json:"failed,omitempty"`
}

func (r row) result() string {
	if r.Failed != "" {
		return "FAILED"
	}
	return "kept"
}

// ran is what an observer of the kubelets' logs saw.
func (r row) ran() string {
	if !r.Observed {
		return "-\t-"
	}
	return fmt.Sprintf("%d\t%d", r.Desktops, r.Twice)
}

// print writes the table, and below it what needs more words.
func printReport(out io.Writer, rows []row) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "scenario\tpromises\tinjected\tboth agree after\tall runs after\ttook\tchanges\tseen\trestarts\tdesktops\tran twice")
	for _, r := range rows {
		did := 0
		for n := range maps.Values(r.Did) {
			did += n
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", r.Scenario, r.result(), len(r.Injected),
			seconds(r.Agreed), seconds(r.Running), seconds(r.Took), did, r.Heard, r.Restarts, r.ran())
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(out, "desktops, ran twice: by an observer of the simulated kubelets' logs; promise 1 lets Restart sessions run twice across members of which one is away")
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
func writeReport(path string, rows []row) error {
	content, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return os.WriteFile(path, append(content, '\n'), 0o644)
}

// failures names the scenarios that failed.
func failures(rows []row) []string {
	var names []string
	for _, r := range rows {
		if r.Failed != "" {
			names = append(names, r.Scenario)
		}
	}
	slices.Sort(names)
	return names
}
