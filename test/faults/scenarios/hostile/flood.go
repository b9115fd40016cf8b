package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// Floods returns the floods of callers without a certificate, from an address of their own, or from
// that of the agents: behind a NAT only a finished handshake distinguishes them.
func Floods() []runner.Scenario {
	const elsewhere, behindNAT = "127.0.0.66", "127.0.0.1"
	of := func(name, from string, a flood) runner.Scenario {
		return runner.Scenario{Name: name, EndsProcesses: true, Size: 12, Do: func(ctx context.Context, r *runner.Run) error {
			a.from = from
			return flooded(ctx, r, a)
		}}
	}
	return []runner.Scenario{
		of("attack-silent", elsewhere, flood{"600 connections that send nothing", 600, silence, ""}),
		of("attack-silent-behind-nat", behindNAT, flood{"600 connections that send nothing", 600, silence, ""}),
		of("attack-unfinished", elsewhere, flood{"512 calls of 4 MiB that lack a byte, 16 a connection", unfinished / 16, unfinishedCalls, ""}),
		of("attack-unfinished-behind-nat", behindNAT, flood{"512 calls of 4 MiB that lack a byte, 16 a connection", unfinished / 16, unfinishedCalls, ""}),
		of("attack-bomb", elsewhere, flood{"calls of 4 KiB that are 4 MiB once decompressed", 16, bombs, ""}),
	}
}

// flood is an attack by several attackers, each over one connection after another.
type flood struct {
	what      string
	attackers int
	// once opens a connection, attacks until the hub ends it, and returns.
	once func(context.Context, *floodTarget) error
	// from is the loopback address that the attackers dial from.
	from string
}

const (
	// reconnectWithin is how much longer than without an attack an agent may take to reconnect.
	reconnectWithin = 5 * time.Second
	// attackMemory is how many more bytes than without an attack the leader may use.
	attackMemory = 100 << 20
	// attackRounds is the least number of rounds. Each cuts one agent off and kills another.
	attackRounds = 3
	// attackLeast is the least duration of an attack, in production time.
	attackLeast = time.Minute
	// renewedLeast is the least ratio of the renewal rate under attack to that without.
	renewedLeast = 0.5
)

// flooded cuts off one agent and kills another, first without and then under an attack, while a
// third renews its lease.
func flooded(ctx context.Context, r *runner.Run, a flood) error {
	if len(r.Fleet.Members) < 3 {
		return errors.New("this takes three members")
	}
	for _, m := range r.Fleet.Members {
		if err := runner.AwaitConnected(ctx, r, m); err != nil {
			return err
		}
	}
	leader, err := r.Leader(ctx)
	if err != nil {
		return err
	}
	calm, err := measureRounds(ctx, r, leader, 1, 0)
	if err != nil {
		return fmt.Errorf("without an attack: %w", err)
	}
	r.Record("without an attack: %s", calm)
	strike, err := startFlood(ctx, r, a, leader)
	if err != nil {
		return err
	}
	attacked, err := measureRounds(ctx, r, leader, attackRounds, r.Scaled(attackLeast))
	done := strike.end()
	r.Record("%s, %d times over %s from %s: %s", a.what, done, attacked.took.Round(time.Second), a.from, attacked)
	if err != nil {
		return fmt.Errorf("under attack: %w", err)
	}
	if done < a.attackers {
		return fmt.Errorf("there was no attack: %d of %d attackers attacked once", done, a.attackers)
	}
	return attacked.compare(calm)
}

// measured is the performance of a fleet over some rounds.
type measured struct {
	took time.Duration
	// cut and killed are the longest times to reconnect after the connection, or the process,
	// ended.
	cut, killed time.Duration
	memory      int64
	// renewed is the third member's number of lease renewals a second, and failed its number of
	// failed renewals.
	renewed float64
	failed  int
}

func (m measured) String() string {
	return fmt.Sprintf("the leader takes %d MB at most; back after at most %s (cut off) and %s (killed); %.1f renewals a second of another, %d failed",
		m.memory>>20, m.cut.Round(10*time.Millisecond), m.killed.Round(10*time.Millisecond), m.renewed, m.failed)
}

func (m measured) compare(calm measured) error {
	var errs []error
	for what, took := range map[string][2]time.Duration{"cut off": {m.cut, calm.cut}, "killed": {m.killed, calm.killed}} {
		if later := took[0] - took[1]; later > reconnectWithin {
			errs = append(errs, fmt.Errorf("an agent that was %s came back %s later than without an attack: %s at most", what, later, reconnectWithin))
		}
	}
	if more := m.memory - calm.memory; more > attackMemory {
		errs = append(errs, fmt.Errorf("the leader takes %d MB more than without an attack: %d MB at most", more>>20, attackMemory>>20))
	}
	if m.renewed < renewedLeast*calm.renewed {
		errs = append(errs, fmt.Errorf("G7: %.1f renewals a second of a member beside it, %.1f without an attack", m.renewed, calm.renewed))
	}
	return errors.Join(errs...)
}

// measureRounds measures at least a number of rounds, for at least a duration.
func measureRounds(ctx context.Context, r *runner.Run, leader *harness.Replica, rounds int, least time.Duration) (m measured, err error) {
	cut, killed, beside := r.Fleet.Members[0], r.Fleet.Members[1], r.Fleet.Members[2]
	began, pid := time.Now(), leader.PID()
	watched, stop := watchMemory(pid)
	defer stop()
	before, err := renewals(ctx, beside)
	if err != nil {
		return m, err
	}
	for n := 0; n < rounds || time.Since(began) < max(least, r.Scaled(20*time.Second)); n++ {
		took, err := reconnectTime(ctx, r, cut, func() error { r.Links[cut.Name].Reset(); return nil })
		if err != nil {
			return m, err
		}
		m.cut = max(m.cut, took)
		if took, err = reconnectTime(ctx, r, killed, killed.Agent.Kill); err != nil {
			return m, err
		}
		m.killed = max(m.killed, took)
	}
	after, err := renewals(ctx, beside)
	if err != nil {
		return m, err
	}
	m.took, m.memory = time.Since(began), watched()
	m.renewed, m.failed = (after.good-before.good)/m.took.Seconds(), int(after.bad-before.bad)
	if leader.PID() != pid || !leader.Running() {
		return m, fmt.Errorf("%s ended", leader.Spec.Name)
	}
	return m, nil
}

// reconnectTime returns how long an agent takes to be connected again after its connection ended,
// or after it was started again.
func reconnectTime(ctx context.Context, r *runner.Run, m *harness.Member, ends func() error) (time.Duration, error) {
	before, err := agentSeries(ctx, m)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of %s: %w", m.Name, err)
	}
	pid := m.Agent.PID()
	if err := ends(); err != nil {
		return 0, err
	}
	since := time.Now()
	err = stage.Poll(ctx, r.Scaled(time.Minute)+2*stage.Allowance, func(ctx context.Context) error {
		if !m.Agent.Running() {
			since = time.Now()
			return fmt.Errorf("the agent of %s is down", m.Name)
		}
		now, err := agentSeries(ctx, m)
		if err != nil {
			return err
		}
		again := m.Agent.PID() != pid || stage.Sum(now, "vdi_agent_link_connections_total") > stage.Sum(before, "vdi_agent_link_connections_total")
		if !again || now["vdi_agent_link_connected"] != 1 {
			return fmt.Errorf("the agent of %s is not connected again", m.Name)
		}
		return nil
	})
	return time.Since(since), err
}

// agentSeries returns the metrics of a member's agent, by name and labels.
func agentSeries(ctx context.Context, m *harness.Member) (map[string]float64, error) {
	metrics, err := m.Metrics(ctx)
	return stage.Series(metrics), err
}

// renewed counts a member's renewals by their result.
type renewed struct{ good, bad float64 }

func renewals(ctx context.Context, m *harness.Member) (renewed, error) {
	all, err := agentSeries(ctx, m)
	good := all[`vdi_agent_link_renewals_total{code="OK"}`]
	return renewed{good, stage.Sum(all, "vdi_agent_link_renewals_total") - good}, err
}

// watchMemory samples a process's memory until stop, or most, which returns the highest sample.
func watchMemory(pid int) (most func() int64, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	var peak int64
	watching.Go(func() {
		for ctx.Err() == nil {
			peak = max(peak, residentOf(pid))
			_ = stage.Sleep(ctx, 20*time.Millisecond)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		watching.Wait()
	})
	return func() int64 { stop(); return peak }, stop
}

// residentOf returns a process's resident memory in bytes, or 0 if it has ended.
func residentOf(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return resident * int64(os.Getpagesize())
}
