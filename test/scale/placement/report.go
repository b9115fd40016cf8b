package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/chart"
	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/simulation"
)

// table prints the results. All but the last three columns are the same for the
// same workload on any machine.
func table(to io.Writer, results []*simulation.Result, took []time.Duration) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "strategy\tutilization\tits p95\tspread\twait p50\twait p95\twait max\trefusals\tnever placed\tmoves\tfailovers\tdecisions\tdecisions/s\tp99\twall time\t")
	for i, r := range results {
		mean, p95 := r.Utilization()
		_, _ = fmt.Fprintf(w, "%s\t%.1f%%\t%.1f%%\t%.1f%%\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%.0f\t%s\t%s\t\n",
			r.Strategy, 100*mean, 100*p95, 100*r.Spread(),
			seconds(simulation.Quantile(r.Waits, 0.5)), seconds(simulation.Quantile(r.Waits, 0.95)), seconds(simulation.Quantile(r.Waits, 1)),
			r.Refusals, r.NeverPlaced, r.Moves, r.Failovers, len(r.DecisionTimes), perSecond(r.DecisionTimes),
			simulation.Quantile(slices.Sorted(slices.Values(r.DecisionTimes)), 0.99).Round(100*time.Nanosecond), took[i].Round(10*time.Millisecond))
	}
	_, _ = fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing the table: %w", err)
	}
	_, err := fmt.Fprintln(to, `utilization: of the fleet, mean over time, and its 95th percentile; spread: standard deviation among the members, mean over time;
wait: simulated time from a session's arrival until its Pod has a node; decisions/s and p99: of placement.Place, by the clock of this machine`)
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }

// perSecond returns the rate of decisions in the time spent on decisions alone.
func perSecond(took []time.Duration) float64 {
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	if sum == 0 {
		return 0
	}
	return float64(len(took)) / sum.Seconds()
}

// plots writes the plots of the results to a directory.
func plots(dir string, results []*simulation.Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, c := range map[string]*chart.Chart{"utilization.svg": utilization(results), "waiting.svg": waiting(results)} {
		path := filepath.Join(dir, name)
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		if err := c.Write(file); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		if err := file.Close(); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
	}
	fmt.Printf("\nplots: %s, %s\n", filepath.Join(dir, "utilization.svg"), filepath.Join(dir, "waiting.svg"))
	return nil
}

// utilization plots that of the fleet over time.
func utilization(results []*simulation.Result) *chart.Chart {
	c := &chart.Chart{
		Title: "Utilization of the fleet over time, by strategy",
		X:     chart.Axis{Title: "hours", Mark: plain},
		Y:     chart.Axis{Title: "utilization", High: 1, Ticks: []float64{0, 0.25, 0.5, 0.75, 1}, Mark: percent},
	}
	for _, r := range results {
		s := chart.Series{Name: string(r.Strategy)}
		for _, sample := range r.Samples {
			s.Points = append(s.Points, chart.Point{X: sample.At.Hours(), Y: sample.Fleet})
			c.X.High = max(c.X.High, sample.At.Hours())
		}
		c.Series = append(c.Series, s)
	}
	step := 0.25
	for c.X.High/step > 12 {
		step *= 2
	}
	for tick := 0.0; tick <= c.X.High; tick += step {
		c.X.Ticks = append(c.X.Ticks, tick)
	}
	return c
}

// waiting plots the share of the sessions that waited no longer than a time.
func waiting(results []*simulation.Result) *chart.Chart {
	c := &chart.Chart{
		Title: "Share of the sessions that waited no longer, by strategy",
		X:     chart.Axis{Title: "seconds until a node was found", Low: 0.1, High: 1, Mark: plain, Log: true},
		Y:     chart.Axis{Title: "share", High: 1, Ticks: []float64{0, 0.25, 0.5, 0.75, 1}, Mark: percent},
	}
	for _, r := range results {
		c.Series = append(c.Series, chart.Series{Name: string(r.Strategy), Points: cumulative(r)})
		for c.X.High < simulation.Quantile(r.Waits, 1).Seconds() {
			c.X.High *= 10
		}
	}
	for tick := c.X.Low; tick <= c.X.High*1.01; tick *= 10 {
		c.X.Ticks = append(c.X.Ticks, tick)
	}
	return c
}

// cumulative returns the cumulative distribution of the waits over all sessions, in
// a few hundred steps.
func cumulative(r *simulation.Result) []chart.Point {
	all := float64(len(r.Waits) + r.NeverPlaced)
	var out []chart.Point
	step := max(len(r.Waits)/400, 1)
	for i := step - 1; i < len(r.Waits); i += step {
		x := r.Waits[i].Seconds()
		if len(out) > 0 {
			out = append(out, chart.Point{X: x, Y: out[len(out)-1].Y})
		}
		out = append(out, chart.Point{X: x, Y: float64(i+1) / all})
	}
	return out
}

func plain(v float64) string   { return fmt.Sprintf("%.3g", v) }
func percent(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }
