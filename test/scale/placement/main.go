// Command placement replays a workload through the production hub/placement in
// simulated time, once for each strategy, and prints a comparison: `make
// simulate` runs it. The workload is generated from a seed, or read from a CSV
// file; package trace documents both, and package simulation what is real and
// what is modeled.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/simulation"
	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/trace"
)

// settings of the command.
type settings struct {
	plan       trace.Plan
	options    simulation.Options
	strategies []v1alpha1.Strategy
	read       string
	write      string
	out        string
}

var allStrategies = []v1alpha1.Strategy{
	v1alpha1.StrategySpread, v1alpha1.StrategyBinPack, v1alpha1.StrategyLeastLoaded, v1alpha1.StrategyWeighted,
}

// garbage is GOGC: the live heap is a few MiB, and at the default a third of the time
// would be spent on garbage collection.
const garbage = 800

func main() {
	debug.SetGCPercent(garbage)
	s, err := parse(os.Args[1:])
	if err == nil {
		err = run(s)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "placement:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*settings, error) {
	s := &settings{options: simulation.Defaults()}
	f := flag.NewFlagSet("placement", flag.ContinueOnError)
	f.Uint64Var(&s.plan.Seed, "seed", 1, "of the generated workload")
	f.IntVar(&s.plan.Members, "members", 12, "members of the generated fleet")
	f.DurationVar(&s.plan.Length, "length", 24*time.Hour, "of the generated workload")
	f.Float64Var(&s.plan.Load, "load", 0.55, "mean of what sessions request, as a share of all cpu without GPU")
	f.Float64Var(&s.plan.OtherPods, "other-pods", 0.08, "mean share of the cpu without GPU that other Pods request")
	f.BoolVar(&s.plan.Failures, "failures", true, "nodes and members are lost and come back")
	f.StringVar(&s.read, "trace", "", "CSV file to replay instead of a generated workload")
	f.StringVar(&s.write, "write-trace", "", "CSV file to write the workload to")
	f.StringVar(&s.out, "out", "", "directory to write plots to, as SVG")
	f.DurationVar(&s.options.Debounce, "debounce", s.options.Debounce, "how long a member gathers changes before it reports them")
	f.DurationVar(&s.options.Link, "link", s.options.Link, "how long a message takes between hub and member")
	f.DurationVar(&s.options.Schedule, "schedule", s.options.Schedule, "how long after its assignment a Pod is scheduled")
	headroom := f.Int("headroom", 0, "percent of each member kept free for failover")
	names := f.String("strategies", "", "to compare, by comma; empty: all")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if *headroom < 0 || *headroom > 90 {
		return nil, fmt.Errorf("--headroom %d is not between 0 and 90", *headroom)
	}
	s.options.HeadroomPercent = int32(*headroom) //nolint:gosec // at most 90
	if s.plan.Members < 1 || s.plan.Members > 10_000 || s.plan.Length <= 0 {
		return nil, errors.New("--members and --length must be positive, and members at most 10,000")
	}
	var err error
	s.strategies, err = strategies(*names)
	return s, err
}

func strategies(names string) ([]v1alpha1.Strategy, error) {
	if names == "" {
		return allStrategies, nil
	}
	var out []v1alpha1.Strategy
next:
	for name := range strings.SplitSeq(names, ",") {
		for _, strategy := range allStrategies {
			if strings.EqualFold(name, string(strategy)) {
				out = append(out, strategy)
				continue next
			}
		}
		return nil, fmt.Errorf("strategy %q is not one of %v", name, allStrategies)
	}
	return out, nil
}

func run(s *settings) error {
	t, err := workload(s)
	if err != nil {
		return err
	}
	fmt.Printf("%d members with %d nodes, %d sessions and %d Pods of others in %s, %d losses\n\n",
		len(t.Members), len(t.Nodes), len(t.Sessions), len(t.Pods), t.End().Round(time.Minute), len(t.Losses))
	var results []*simulation.Result
	var took []time.Duration
	for _, strategy := range s.strategies {
		o := s.options
		o.Strategy, o.Clock = strategy, time.Now
		began := time.Now()
		results = append(results, simulation.Run(t, o))
		took = append(took, time.Since(began))
	}
	if err := table(os.Stdout, results, took); err != nil {
		return err
	}
	if s.out == "" {
		return nil
	}
	return plots(s.out, results)
}

// workload returns the trace to replay.
func workload(s *settings) (t *trace.Trace, err error) {
	if s.read != "" {
		file, err := os.Open(s.read)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if t, err = trace.Read(file); err != nil {
			return nil, fmt.Errorf("reading %s: %w", s.read, err)
		}
	} else {
		t = trace.Generate(s.plan)
		fmt.Printf("generated with seed %d: Poisson arrivals by the day, lognormal lifetimes, Zipf users; see test/scale/placement/trace/doc.go\n", s.plan.Seed)
	}
	if s.write == "" {
		return t, nil
	}
	file, err := os.Create(s.write)
	if err != nil {
		return nil, err
	}
	return t, errors.Join(t.Write(file), file.Close())
}
