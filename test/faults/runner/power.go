package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// PowerOff kills all of a member at once: control plane, agent, kubelets and what they run.
func PowerOff(r *Run, m *harness.Member) error {
	supervise(r, m, false)
	r.PoweredOff[m] = true
	r.Watch.With(func(c *checker.Checker, now time.Time) { c.RecordPowerLoss(now, m.Name) })
	if err := m.PowerOff(); err != nil {
		return fmt.Errorf("cutting the power of %s: %w", m.Name, err)
	}
	r.Record("%s has no power: every process of it is dead", m.Name)
	return nil
}

// PowerOn starts all of a member again.
func PowerOn(ctx context.Context, r *Run, m *harness.Member) error {
	if err := m.PowerOn(ctx); err != nil {
		return fmt.Errorf("giving %s its power back: %w", m.Name, err)
	}
	delete(r.PoweredOff, m)
	supervise(r, m, true)
	r.Record("%s has its power back", m.Name)
	return r.Watch.WatchAgain(m)
}

// supervise sets whether the supervisor restarts a member's processes.
func supervise(r *Run, m *harness.Member, may bool) {
	HoldAgents(r, m, !may)
	r.Supervisor.Hold(m.ControlPlane.Scheduler, !may)
	if m.Door != nil {
		r.Supervisor.Hold(m.Door.Process, !may)
	}
	if m.ControlPlane.Karpenter != nil {
		r.Supervisor.Hold(m.ControlPlane.Karpenter.Process, !may)
	}
}

// HoldAgents keeps the replicas of a member's agent down once they have ended, or allows them to start
// again.
func HoldAgents(r *Run, m *harness.Member, held bool) {
	for _, a := range m.Agents {
		r.Supervisor.Hold(a.Process, held)
	}
}

// KillAndHoldAgents kills all replicas of a member's agent and leaves them down.
func KillAndHoldAgents(r *Run, m *harness.Member) error {
	r.RecordOutage(m.Name)
	HoldAgents(r, m, true)
	r.Record("kill -9 %s, which stays down; its member lives", m.Agent.Spec.Name)
	return KillAgents(m)
}

// MarkRemoved records that a member never returns: nothing reads it any more.
func MarkRemoved(r *Run, m *harness.Member) {
	delete(r.PoweredOff, m)
	r.Removed[m] = true
	r.Watch.With(func(c *checker.Checker, _ time.Time) { c.DeclareRemoved(m.Name) })
}

// KillAgents kills all replicas of a member's agent.
func KillAgents(m *harness.Member) error {
	var errs []error
	for _, a := range m.Agents {
		errs = append(errs, a.Kill())
	}
	return errors.Join(errs...)
}
