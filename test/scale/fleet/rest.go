package main

import (
	"context"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// restFor is how long the fleet is watched at rest: the two minutes within which Go collects garbage
// at least once, so that a collection counts as often as it happens. shortRestFor is that for tests.
// Rest begins with quietFor without a write of the hub: those that follow a burst, such as Roles of
// users, have ended. The counts in the statuses of a large fleet's members are written later.
const (
	restFor      = 2 * time.Minute
	shortRestFor = 30 * time.Second
	quietFor     = 15 * time.Second
)

// quiet is how long nothing must be written before the fleet is at rest.
func (f *fleet) quiet() time.Duration {
	return max(quietFor, backoff.StatusIntervalOf(len(f.members))+5*time.Second)
}

// rest measures CPU and writes of the hub while nothing happens.
func (f *fleet) rest(ctx context.Context) error {
	began := time.Now()
	for quiet := false; !quiet; {
		counts, err := f.writesIn(ctx, f.quiet())
		if err != nil {
			return err
		}
		quiet = len(counts) == 0
	}
	fmt.Printf("  at rest after %s\n", round(time.Since(began)-f.quiet()))
	sets, used := f.templateSets.Load(), f.cpu()
	f.renewals.reset()
	watched := restFor
	if f.options.short {
		watched = shortRestFor
	}
	counts, err := f.writesIn(ctx, watched)
	if err != nil {
		return err
	}
	cores := (f.cpu() - used).Seconds() / watched.Seconds()
	for _, c := range counts {
		fmt.Printf("    %s %s: %d\n", c.Verb, c.Resource, c.Count)
	}
	atMost(f, "CPU of both replicas, in cores", cores, wider(f, idleCores))
	atMost(f, "writes, leases apart", harness.Total(counts), 0)
	atMost(f, "template sets that were sent", f.templateSets.Load()-sets, 0)
	if err := f.memory(ctx); err != nil {
		return err
	}
	for _, r := range f.Hub.Replicas {
		if !r.Running() {
			f.fail("%s does not run", r.PodName)
		}
		if f.created >= manySessions {
			atMost(f, "KiB of "+r.PodName+" a session", float64(r.Resident())/1024/float64(f.created), kibPerSession)
		}
	}
	return nil
}

// writesIn returns what the hub writes within a time, leases apart.
func (f *fleet) writesIn(ctx context.Context, d time.Duration) ([]harness.WriteCount, error) {
	log := f.Hub.ControlPlane.AuditLog()
	mark, err := harness.AuditMark(log)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, d); err != nil {
		return nil, err
	}
	return harness.CountWrites(log, harness.CountOptions{Offset: mark, Users: []string{harness.HubUser}, Events: true})
}

// cpu returns the CPU time of both replicas.
func (f *fleet) cpu() (sum time.Duration) {
	for _, r := range f.Hub.Replicas {
		sum += r.CPUTime()
	}
	return sum
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// memory prints what the replicas that run take.
func (f *fleet) memory(ctx context.Context) error {
	for _, r := range f.Hub.Replicas {
		if !r.Running() {
			continue
		}
		values, err := metrics(ctx, f.Hub, r)
		if err != nil {
			return err
		}
		// Go collects garbage when the heap is so much larger than what was live.
		live := values.Gauge("go_memstats_next_gc_bytes", "", "") / (1 + values.Gauge("go_gc_gogc_percent", "", "")/100)
		resident := float64(r.Resident())
		fmt.Printf("  %s: %.0f MiB resident, about %.0f MiB of them live\n", r.PodName, resident/(1<<20), live/(1<<20))
		if f.created > 0 {
			fmt.Printf("    %.1f KiB resident a session, %.1f KiB live\n", resident/1024/float64(f.created), live/1024/float64(f.created))
		}
		atMost(f, "MiB of "+r.PodName+" at its peak", r.Peak()>>20, f.memoryLimit>>20)
	}
	return nil
}
