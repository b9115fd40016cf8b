package main

import (
	"context"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// restFor is how long the fleet is watched at rest, after settle: writes that follow a burst end
// within that time (see test/scale).
const (
	restFor = 30 * time.Second
	settle  = 25 * time.Second
)

// rest measures CPU and writes of the hub while nothing happens.
func (f *fleet) rest(ctx context.Context) error {
	if err := pause(ctx, settle); err != nil {
		return err
	}
	log := f.Hub.ControlPlane.AuditLog()
	mark, err := harness.AuditMark(log)
	if err != nil {
		return err
	}
	sets, used := f.templateSets.Load(), f.cpu()
	f.renewals.reset()
	if err := pause(ctx, restFor); err != nil {
		return err
	}
	cores := (f.cpu() - used).Seconds() / restFor.Seconds()
	counts, err := harness.CountWrites(log, harness.CountOptions{Offset: mark, Users: []string{harness.HubUser}, Events: true})
	if err != nil {
		return err
	}
	for _, c := range counts {
		fmt.Printf("    %s %s: %d\n", c.Verb, c.Resource, c.Count)
	}
	atMost(f, "CPU of both replicas, in cores", cores, idleCores)
	atMost(f, "writes, leases apart", harness.Total(counts), 0)
	atMost(f, "template sets that were sent", f.templateSets.Load()-sets, 0)
	for i, bytes := range f.memory() {
		fmt.Printf("  %s: %d MiB resident\n", f.Hub.Replicas[i].PodName, bytes>>20)
	}
	return nil
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
