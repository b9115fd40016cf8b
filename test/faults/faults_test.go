package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/scenarios"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// Factor and seed of the short scenarios.
const (
	defaultFactor = 0.2
	shortSeed     = 1
)

// settings are the options from the environment.
type settings struct {
	factor float64
	seed   uint64
	soak   time.Duration
	report string
	chosen []runner.Scenario
}

// read reads SCENARIOS (all; short by default), FOCUS (a regular expression on
// names), SEED, FACTOR, SOAK and REPORT.
func read(t *testing.T) settings {
	t.Helper()
	s := settings{factor: defaultFactor, seed: shortSeed, report: os.Getenv("REPORT")}
	all := os.Getenv("SCENARIOS") == "all"
	if all {
		s.seed = rand.Uint64N(1e6)
	}
	var err error
	if text := os.Getenv("FACTOR"); text != "" {
		if s.factor, err = strconv.ParseFloat(text, 64); err != nil || s.factor <= 0 {
			t.Fatalf("FACTOR=%s is no number above 0", text)
		}
	}
	if text := os.Getenv("SEED"); text != "" {
		if s.seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("SEED=%s is no number", text)
		}
	}
	if text := os.Getenv("SOAK"); text != "" {
		if s.soak, err = time.ParseDuration(text); err != nil {
			t.Fatalf("SOAK=%s is no duration", text)
		}
	}
	s.chosen = choose(t, all)
	return s
}

// choose returns the scenarios that FOCUS matches, of all or of the short ones. It skips those that need
// Karpenter if that was not built.
func choose(t *testing.T, all bool) (chosen []runner.Scenario) {
	t.Helper()
	focus, err := regexp.Compile(os.Getenv("FOCUS"))
	if err != nil {
		t.Fatalf("FOCUS: %v", err)
	}
	missing := harness.HasKarpenter()
	skipped := false
	for _, sc := range scenarios.All() {
		switch matches := (all || sc.Short) && focus.MatchString(sc.Name); {
		case matches && sc.Kind.Growing && missing != nil:
			skipped = true
			logf("%s is skipped: %v", sc.Name, missing)
		case matches:
			chosen = append(chosen, sc)
		}
	}
	switch {
	case len(chosen) > 0:
	case skipped:
		t.Skip("all chosen scenarios are skipped: ", missing)
	default:
		t.Fatalf("no scenario matches FOCUS=%s", focus)
	}
	return chosen
}

// logf prints at once: a pass takes minutes.
func logf(format string, args ...any) {
	fmt.Printf("%s %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes: make test-all runs the short scenarios, and make test-faults all")
	}
	s := read(t)
	logf("FACTOR=%v SEED=%d: %d scenarios", s.factor, s.seed, len(s.chosen))
	var rows []runner.Result
	if s.soak > 0 {
		rows = soak(t, s)
	} else {
		rows = pass(t, s)
	}
	fmt.Println()
	printReport(os.Stdout, rows)
	if s.report != "" {
		if err := writeReport(s.report, rows); err != nil {
			t.Error(err)
		}
	}
	if failed := failures(rows); len(failed) > 0 {
		t.Errorf("FACTOR=%v SEED=%d: guarantees violated in %v", s.factor, s.seed, failed)
	}
}

// pass runs the chosen scenarios one after another: on one fleet, except those that need their own.
func pass(t *testing.T, s settings) []runner.Result {
	t.Helper()
	var rows []runner.Result
	var shared *stage.Stage
	defer func() { end(t, shared) }()
	for _, sc := range s.chosen {
		if shared != nil && shared.Kind != sc.Kind {
			end(t, shared)
			shared = nil
		}
		stage := shared
		if stage == nil || sc.Alone {
			if stage = begin(t, s, sc.Kind); stage == nil {
				return append(rows, runner.Result{Scenario: sc.Name, Seed: s.seed, Factor: s.factor, Failed: "its fleet did not start"})
			}
		}
		if !sc.Alone {
			shared = stage
		}
		logf("  %s", sc.Name)
		result := runner.Play(t.Context(), stage, sc)
		logf("  %s: %s after %s %s", sc.Name, verdict(result), seconds(result.Took), result.Failed)
		for _, v := range result.Violations {
			logf("    %s", v)
			for _, line := range v.Trail {
				logf("      %s", line)
			}
		}
		rows = append(rows, result)
		if result.Failed != "" {
			keepLogs(t, stage, sc.Name)
		}
		if sc.Alone || result.Failed != "" {
			// What a failure left must not affect the next scenario.
			end(t, stage)
			if !sc.Alone {
				shared = nil
			}
		}
	}
	return rows
}

// begin starts a fleet; it returns nil if that failed.
func begin(t *testing.T, s settings, of stage.Kind) *stage.Stage {
	t.Helper()
	stage, err := stage.Start(context.Background(), s.factor, s.seed, of, logf)
	if err != nil {
		t.Errorf("starting a fleet: %v", err)
	}
	return stage
}

func end(t *testing.T, s *stage.Stage) {
	t.Helper()
	if s != nil {
		if err := s.Close(); err != nil {
			t.Errorf("stopping the fleet: %v", err)
		}
	}
}

// keepLogs copies the logs of hub and agents into the directory LOGS, if it is set.
func keepLogs(t *testing.T, s *stage.Stage, scenario string) {
	t.Helper()
	to := os.Getenv("LOGS")
	if to == "" {
		return
	}
	to = filepath.Join(to, fmt.Sprintf("%s-%d", scenario, s.Seed))
	if err := os.RemoveAll(to); err != nil {
		t.Error(err)
	}
	if err := os.CopyFS(to, os.DirFS(filepath.Join(s.Fleet.Dir, "logs"))); err != nil {
		t.Error(err)
	}
	for _, cp := range s.ControlPlanes() {
		keep(t, cp.AuditLog(), filepath.Join(to, cp.Name+"-audit.log"))
	}
	if s.Kind.Kubelets {
		for _, log := range s.Fleet.ContainerLogs() {
			keep(t, log, filepath.Join(to, "containers-"+filepath.Base(log)))
		}
	}
}

func keep(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}
