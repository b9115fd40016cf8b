package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// powerOff ends all of a member at once: control plane, agent, kubelets and what
// they run.
func (r *run) powerOff(m *harness.Member) error {
	r.supervise(m, false)
	r.off[m] = true
	r.watch.heard(func(c *checker, now time.Time) { c.powerCut(now, m.Name) })
	if err := m.PowerOff(); err != nil {
		return fmt.Errorf("cutting the power of %s: %w", m.Name, err)
	}
	r.harm("%s has no power: every process of it is dead", m.Name)
	return nil
}

// powerOn starts it again.
func (r *run) powerOn(ctx context.Context, m *harness.Member) error {
	if err := m.PowerOn(ctx); err != nil {
		return fmt.Errorf("giving %s its power back: %w", m.Name, err)
	}
	delete(r.off, m)
	r.supervise(m, true)
	r.harm("%s has its power back", m.Name)
	return r.watch.watchAnew(m)
}

// supervise says whether what has ended of a member may start again.
func (r *run) supervise(m *harness.Member, may bool) {
	r.holdAgents(m, !may)
	r.supervisor.hold(m.ControlPlane.Scheduler, !may)
}

// holdAgents keeps the replicas of a member's agent down once they have ended, or lets
// them come back.
func (r *run) holdAgents(m *harness.Member, held bool) {
	for _, a := range m.Agents {
		r.supervisor.hold(a.Process, held)
	}
}

// killAgent ends a member's agent, all replicas of it, for as long as the scenario wants.
func (r *run) killAgent(m *harness.Member) error {
	r.away(m.Name)
	r.holdAgents(m, true)
	r.harm("kill -9 %s, which stays down; its member lives", m.Agent.Spec.Name)
	return killAgents(m)
}

// killAgents ends all replicas of a member's agent.
func killAgents(m *harness.Member) error {
	var errs []error
	for _, a := range m.Agents {
		errs = append(errs, a.Kill())
	}
	return errors.Join(errs...)
}

// bury takes a member for gone for good: nobody is asked about it any more.
func (r *run) bury(m *harness.Member) {
	delete(r.off, m)
	r.buried[m] = true
	r.watch.heard(func(c *checker, _ time.Time) { c.gone[m.Name] = true })
}

func (s *stage) isBuried(member string) bool {
	for m := range s.buried {
		if m.Name == member {
			return true
		}
	}
	return false
}
