package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/simulation"
)

func TestARunWritesItsTraceAndPlotsAndReplaysToTheSame(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "trace.csv")
	s, err := parse([]string{"--members", "2", "--length", "1h", "--write-trace", file, "--out", dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(s); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"utilization.svg", "waiting.svg"} {
		svg, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, strategy := range allStrategies {
			if !strings.Contains(string(svg), string(strategy)) {
				t.Errorf("%s shows nothing of %s", name, strategy)
			}
		}
	}
	generated, err := workload(&settings{plan: s.plan})
	if err != nil {
		t.Fatal(err)
	}
	replayed, err := workload(&settings{read: file})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(simulation.Run(generated, s.options), simulation.Run(replayed, s.options)); diff != "" {
		t.Errorf("the file replays to something else (-generated +replayed):\n%s", diff)
	}
}

func TestFlagsThatMakeNoSenseAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--strategies", "Random"}, {"--headroom", "91"}, {"--members", "0"}, {"--length", "-1h"},
	} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	s, err := parse([]string{"--strategies", "binpack,Spread"})
	if err != nil || len(s.strategies) != 2 || s.strategies[0] != "BinPack" {
		t.Errorf("got %v, %v", s, err)
	}
}

func TestTheTableShowsTheMeasurements(t *testing.T) {
	r := &simulation.Result{
		Strategy: "Spread", Refusals: 3, NeverPlaced: 5, Moves: 7, Failovers: 11,
		Samples:       []simulation.Sample{{Fleet: 0.25, Spread: 0.1}, {Fleet: 0.75, Spread: 0.3}},
		Waits:         []time.Duration{time.Second, 2 * time.Second, 90 * time.Second},
		DecisionTimes: []time.Duration{time.Millisecond, 3 * time.Millisecond},
	}
	var out bytes.Buffer
	if err := table(&out, []*simulation.Result{r}, []time.Duration{time.Second}); err != nil {
		t.Fatal(err)
	}
	row := strings.Join(strings.Fields(strings.Split(out.String(), "\n")[1]), " ")
	if want := "Spread 50.0% 75.0% 20.0% 2.00s 90.00s 90.00s 3 5 7 11 2 500 3ms 1s"; row != want {
		t.Errorf("got  %q\nwant %q", row, want)
	}
}
