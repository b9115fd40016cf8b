package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/scrape"
)

// A decision is timed by the wall clock, so its bound holds while the machine has a core for the
// hub: at a rate far below that of the API server, which takes all cores in a burst.
const (
	decisionP99      = time.Millisecond
	decisionTime     = "vdi_hub_placement_decision_seconds"
	decisionSessions = 1000
	decisionInterval = 50 * time.Millisecond
)

// decide creates sessions at a slow rate, and measures the decisions on them.
func (f *fleet) decide(ctx context.Context) error {
	before, err := decisions(ctx, f.Hub)
	if err != nil {
		return err
	}
	tick := time.NewTicker(decisionInterval)
	defer tick.Stop()
	for i := range decisionSessions {
		s := f.session("slow", i)
		if err := f.hub.Create(ctx, s); err != nil {
			return fmt.Errorf("creating a session: %w", err)
		}
		<-tick.C
	}
	if err := f.watch("slow", running).await(ctx, decisionSessions); err != nil {
		return err
	}
	f.created += decisionSessions
	after, err := decisions(ctx, f.Hub)
	if err != nil {
		return err
	}
	p99 := time.Duration(scrape.Quantile(after, before, 0.99) * float64(time.Second))
	if f.options.short {
		fmt.Printf("  p99 of a placement decision: %s\n", p99.Round(time.Microsecond))
		return nil
	}
	atMost(f, "p99 of a placement decision", p99.Round(time.Microsecond), wider(f, decisionP99))
	return nil
}

// decisions returns the leader's histogram of placement decisions.
func decisions(ctx context.Context, hub *harness.Hub) (*dto.Histogram, error) {
	values, err := leaderMetrics(ctx, hub)
	return values.Histogram(decisionTime, "", ""), err
}

func leaderMetrics(ctx context.Context, hub *harness.Hub) (scrape.Values, error) {
	leader := hub.Leader(ctx)
	if leader == nil {
		return nil, errNoLeader
	}
	return metrics(ctx, hub, leader)
}

// answersLate is from when on the time until a replica's metrics are answered is printed.
const answersLate = 5 * time.Second

// metrics returns those of a replica of the hub. One that has just begun to lead thousands of sessions may not answer
// for a while, as Prometheus would find.
func metrics(ctx context.Context, hub *harness.Hub, r *harness.Replica) (scrape.Values, error) {
	began, text, last := time.Now(), "", error(nil)
	err := wait.PollUntilContextTimeout(ctx, time.Second, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		text, last = hub.Metrics(ctx, r)
		return last == nil, nil
	})
	if err != nil {
		return nil, errors.Join(err, last)
	}
	if took := time.Since(began); took > answersLate {
		fmt.Printf("  the metrics of %s are answered after %s\n", r.PodName, round(took))
	}
	return scrape.Parse(text)
}
