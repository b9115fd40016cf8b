package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// How much a process may have grown over a soak that has left no session: half
// as much again as after its first scenario, and what a heap may keep of a burst.
const (
	growth         = 1.5
	spareGoroutine = 60
	spareBytes     = 64 << 20
)

// footprint is what a process of ours takes.
type footprint struct {
	Process string `json:"process"`
	PID     int    `json:"pid"`
	// Leads: it is the replica of the hub that leads, which takes more than one
	// that waits.
	Leads      bool    `json:"leads"`
	Goroutines float64 `json:"goroutines"`
	RSS        float64 `json:"rss"`
}

func (f footprint) String() string {
	role := ""
	if f.Leads {
		role = ", leads"
	}
	return fmt.Sprintf("%s (pid %d%s): %.0f goroutines, %.0f MB", f.Process, f.PID, role, f.Goroutines, f.RSS/(1<<20))
}

// of is whether it is of the same process in the same role.
func (f footprint) of(other footprint) bool {
	return f.Process == other.Process && f.Leads == other.Leads
}

// footprints of hub and agents, by their own metrics.
func (s *stage) footprints(ctx context.Context) ([]footprint, error) {
	var out []footprint
	measure := func(p *harness.Process, leads bool, metrics string, err error) error {
		var values []float64
		if err == nil {
			values, err = valuesOf(metrics, "go_goroutines", "process_resident_memory_bytes")
		}
		if err != nil {
			return fmt.Errorf("measuring %s: %w", p.Spec.Name, err)
		}
		out = append(out, footprint{p.Spec.Name, p.PID(), leads, values[0], values[1]})
		return nil
	}
	err := poll(ctx, time.Minute, func(ctx context.Context) error {
		out = nil
		leader := s.fleet.Hub.Leader(ctx)
		if leader == nil {
			return errors.New("no replica of the hub leads")
		}
		var errs []error
		for _, r := range s.fleet.Hub.Replicas {
			metrics, err := s.fleet.Hub.Metrics(ctx, r)
			errs = append(errs, measure(r.Process, r == leader, metrics, err))
		}
		for _, m := range s.fleet.Members {
			for _, a := range m.Agents {
				metrics, err := m.MetricsOf(ctx, a)
				errs = append(errs, measure(a.Process, false, metrics, err))
			}
		}
		return errors.Join(errs...)
	})
	return out, err
}

// valuesOf are those of metrics without labels.
func valuesOf(metrics string, names ...string) ([]float64, error) {
	found := series(metrics)
	values := make([]float64, len(names))
	for i, name := range names {
		value, there := found[name]
		if !there {
			return nil, fmt.Errorf("there is no metric %s", name)
		}
		values[i] = value
	}
	return values, nil
}

// series are all metrics, by name and labels.
func series(metrics string) map[string]float64 {
	found := map[string]float64{}
	for line := range strings.Lines(metrics) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				found[name] = n
			}
		}
	}
	return found
}

// firsts are the first footprints of each process in each role.
func firsts(before, now []footprint) []footprint {
	for _, n := range now {
		if !slices.ContainsFunc(before, n.of) {
			before = append(before, n)
		}
	}
	return before
}

// grown says which processes took more than they may.
func grown(before, after []footprint) error {
	var errs []error
	for _, b := range before {
		for _, a := range after {
			if !a.of(b) {
				continue
			}
			if a.Goroutines > b.Goroutines*growth+spareGoroutine {
				errs = append(errs, fmt.Errorf("%s had %.0f goroutines and has %.0f", a.Process, b.Goroutines, a.Goroutines))
			}
			if a.RSS > b.RSS*growth+spareBytes {
				errs = append(errs, fmt.Errorf("%s took %.0f MB and takes %.0f", a.Process, b.RSS/(1<<20), a.RSS/(1<<20)))
			}
		}
	}
	return errors.Join(errs...)
}
