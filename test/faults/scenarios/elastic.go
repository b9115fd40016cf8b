package scenarios

import (
	"context"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// elastics returns the scenarios of members that add nodes for sessions.
func elastics() []runner.Scenario {
	return []runner.Scenario{
		// Alone: the nodes that were added stay.
		{Name: "elastic-kill", Size: elasticSize, Alone: true, EndsProcesses: true, Slack: stage.WatchBackoff, Kind: stage.Kind{Growing: true}, Do: elasticKill},
	}
}

// elasticSize is more sessions than the nodes hold at any time of elasticKill, and elasticNodes is how
// many nodes hold all of them in any one member.
const (
	elasticSize  = 72
	elasticNodes = 36
)

// The random pauses of elasticKill: from a higher limit to a fault, and how long a process stays down.
// They are not scaled, since Karpenter's times are not.
const (
	growingTime = 8 * time.Second
	downTime    = 5 * time.Second
)

// elasticKill permits members one more node each, again and again, while more sessions are pending
// than fit, and kills a process at a random moment of each node's start: the hub's leader, an agent,
// a Karpenter or an API server.
func elasticKill(ctx context.Context, r *runner.Run) error {
	var kills []func(context.Context, *runner.Run, *harness.Member) error
	for range runner.Rounds {
		kills = append(kills, killAnyHub, killAgentOf, killKarpenterOf, killAPIServerOf)
	}
	r.Random.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
	limits := map[string]int{}
	for _, m := range r.Fleet.Members {
		limits[m.Name] = 1
	}
	// In the end all sessions fit.
	r.Cleanup(func() {
		for _, m := range r.Fleet.Members {
			if err := r.LimitNodes(ctx, m.Name, elasticNodes); err != nil {
				r.Logf("    %v", err)
			}
		}
	})
	for _, kill := range kills {
		m := r.RandomMember()
		limits[m.Name]++
		r.Record("%s may have %d nodes", m.Name, limits[m.Name])
		if err := r.LimitNodes(ctx, m.Name, limits[m.Name]); err != nil {
			return err
		}
		if err := sleepRandomly(ctx, r, growingTime); err != nil {
			return err
		}
		if err := kill(ctx, r, m); err != nil {
			return err
		}
	}
	return checkGrown(r, limits)
}

// sleepRandomly waits for a random part of a time that is not scaled.
func sleepRandomly(ctx context.Context, r *runner.Run, most time.Duration) error {
	return stage.Sleep(ctx, time.Duration(r.Random.Int64N(int64(most))))
}

func killAnyHub(ctx context.Context, r *runner.Run, _ *harness.Member) error {
	return r.KillLeader(ctx, "while nodes are added")
}

func killAgentOf(ctx context.Context, r *runner.Run, m *harness.Member) error {
	agent := m.Leading(ctx)
	r.Record("kill -9 %s", agent.Spec.Name)
	return agent.Kill()
}

func killKarpenterOf(ctx context.Context, r *runner.Run, m *harness.Member) error {
	autoscaler := m.ControlPlane.Karpenter.Process
	r.Supervisor.Hold(autoscaler, true)
	r.Record("kill -9 %s", autoscaler.Spec.Name)
	if err := autoscaler.Kill(); err != nil {
		return err
	}
	if err := sleepRandomly(ctx, r, downTime); err != nil {
		return err
	}
	r.Record("%s may start again", autoscaler.Spec.Name)
	r.Supervisor.Hold(autoscaler, false)
	return nil
}

func killAPIServerOf(ctx context.Context, r *runner.Run, m *harness.Member) error {
	server := m.ControlPlane.APIServer
	r.Record("kill -9 %s", server.Spec.Name)
	if err := server.Kill(); err != nil {
		return err
	}
	if err := sleepRandomly(ctx, r, downTime); err != nil {
		return err
	}
	r.Record("%s starts again", server.Spec.Name)
	return stage.RestartControlPlane(ctx, m.ControlPlane)
}

// checkGrown checks that a member has added as many nodes as its limit permits: otherwise it would
// prove nothing that no limit was exceeded.
func checkGrown(r *runner.Run, limits map[string]int) error {
	reached := false
	for _, m := range r.Fleet.Members {
		most := r.MostNodes(m.Name)
		r.Record("%s had %d nodes, of %d that it may have", m.Name, most, limits[m.Name])
		reached = reached || most == limits[m.Name]
	}
	if !reached {
		return fmt.Errorf("no member has reached its limit: %v", limits)
	}
	return nil
}
