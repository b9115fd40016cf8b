package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// growth is by how much the median of a resource may exceed, in the last quarter of a soak, that of
// the first quarter. A soak leaves no session.
const growth = 1.1

// footprint is the resource usage of one of the fleet's processes.
type footprint struct {
	process string
	pid     int
	// role is hub or agent, and leader or standby: a leader uses more.
	role string
	// heap is what the process may allocate, in bytes, until the next collection: it is in
	// proportion to what the last one left.
	goroutines, heap, files float64
}

func (f footprint) String() string {
	return fmt.Sprintf("%s (pid %d, %s): %.0f goroutines, heap of %.0f MB, %.0f open files", f.process, f.pid, f.role, f.goroutines, f.heap/(1<<20), f.files)
}

// footprints returns the footprints of hub and agents, from their metrics.
func footprints(ctx context.Context, s *stage.Stage) ([]footprint, error) {
	var out []footprint
	measure := func(p *harness.Process, program string, leads bool, metrics string, err error) error {
		var values []float64
		if err == nil {
			values, err = stage.Values(metrics, "go_goroutines", "go_memstats_next_gc_bytes", "process_open_fds")
		}
		if err != nil {
			return fmt.Errorf("measuring %s: %w", p.Spec.Name, err)
		}
		role := program + " standby"
		if leads {
			role = program + " leader"
		}
		out = append(out, footprint{p.Spec.Name, p.PID(), role, values[0], values[1], values[2]})
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
			errs = append(errs, measure(r.Process, "hub", r == leader, metrics, err))
		}
		for _, m := range s.Fleet.Members {
			leader := m.Leading(ctx)
			for _, a := range m.Agents {
				metrics, err := m.MetricsOf(ctx, a)
				errs = append(errs, measure(a.Process, "agent", a == leader, metrics, err))
			}
		}
		return errors.Join(errs...)
	})
	return out, err
}

// change is the median of a resource in the first and in the last quarter of a soak.
type change struct {
	role, resource string
	first, last    float64
}

func (c change) String() string {
	return fmt.Sprintf("%s: %s %.0f in the first quarter, %.0f in the last one (%+.1f%%)", c.role, c.resource, c.first, c.last, 100*(c.last/c.first-1))
}

// grown reports whether the resource is used more than it may be.
func (c change) grown() bool { return c.last > c.first*growth }

// changes returns what changed for each role, from the footprints after each scenario.
func changes(samples [][]footprint) []change {
	quarter := max(1, len(samples)/4)
	first, last := slices.Concat(samples[:quarter]...), slices.Concat(samples[len(samples)-quarter:]...)
	roles := map[string]bool{}
	for _, f := range first {
		roles[f.role] = true
	}
	var out []change
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		for resource, of := range map[string]func(footprint) float64{
			"goroutines": func(f footprint) float64 { return f.goroutines },
			"heap, KiB,": func(f footprint) float64 { return f.heap / 1024 },
			"open files": func(f footprint) float64 { return f.files },
		} {
			if c := (change{role, resource, median(first, role, of), median(last, role, of)}); c.last > 0 {
				out = append(out, c)
			}
		}
	}
	slices.SortFunc(out, func(a, b change) int { return strings.Compare(a.role+a.resource, b.role+b.resource) })
	return out
}

// median returns the median of a resource in a role, or 0 if no process had the role.
func median(all []footprint, role string, of func(footprint) float64) float64 {
	var values []float64
	for _, f := range all {
		if f.role == role {
			values = append(values, of(f))
		}
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
