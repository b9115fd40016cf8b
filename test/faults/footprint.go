package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// Over a soak, which leaves no session, a process may grow to growth times its footprint after its
// first scenario, plus what a heap may keep after a burst.
const (
	growth         = 1.5
	spareGoroutine = 60
	spareBytes     = 64 << 20
)

// footprint is the resource usage of one of the fleet's processes.
type footprint struct {
	Process string `json:"process"`
	PID     int    `json:"pid"`
	// Leads means that it is the hub's leader, which uses more than a standby.
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

// sameAs reports whether both are of the same process in the same role.
func (f footprint) sameAs(other footprint) bool {
	return f.Process == other.Process && f.Leads == other.Leads
}

// footprints returns the footprints of hub and agents, from their metrics.
func footprints(ctx context.Context, s *stage.Stage) ([]footprint, error) {
	var out []footprint
	measure := func(p *harness.Process, leads bool, metrics string, err error) error {
		var values []float64
		if err == nil {
			values, err = stage.Values(metrics, "go_goroutines", "process_resident_memory_bytes")
		}
		if err != nil {
			return fmt.Errorf("measuring %s: %w", p.Spec.Name, err)
		}
		out = append(out, footprint{p.Spec.Name, p.PID(), leads, values[0], values[1]})
		return nil
	}
	err := stage.Poll(ctx, time.Minute, func(ctx context.Context) error {
		out = nil
		leader := s.Fleet.Hub.Leader(ctx)
		if leader == nil {
			return errors.New("no replica of the hub leads")
		}
		var errs []error
		for _, r := range s.Fleet.Hub.Replicas {
			metrics, err := s.Fleet.Hub.Metrics(ctx, r)
			errs = append(errs, measure(r.Process, r == leader, metrics, err))
		}
		for _, m := range s.Fleet.Members {
			for _, a := range m.Agents {
				metrics, err := m.MetricsOf(ctx, a)
				errs = append(errs, measure(a.Process, false, metrics, err))
			}
		}
		return errors.Join(errs...)
	})
	return out, err
}

// firstOfEach returns the first footprints of each process in each role.
func firstOfEach(before, now []footprint) []footprint {
	for _, n := range now {
		if !slices.ContainsFunc(before, n.sameAs) {
			before = append(before, n)
		}
	}
	return before
}

// grown returns an error for each process that uses more than it may.
func grown(before, after []footprint) error {
	var errs []error
	for _, b := range before {
		for _, a := range after {
			if !a.sameAs(b) {
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
