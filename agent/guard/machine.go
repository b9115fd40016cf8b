package guard

import (
	"fmt"
	"time"
)

// Limits of a desktop that does not answer on its port.
type Limits struct {
	// Start is how long it may take until it first answers.
	Start time.Duration
	// Closed is how long it may not answer once it did.
	Closed time.Duration
}

// Machine decides whether a desktop may go on. Its times are of a clock that never stops.
// It is not safe for concurrent use.
type Machine struct {
	limits Limits
	// until is when the lease is over, held is set if there was one, and over once it has
	// ended, which is final.
	until      time.Duration
	held, over bool
	// began is when the kubelet first probed the desktop, which runs since then. Before,
	// it can't answer.
	began   time.Duration
	started bool
	// open is when it last answered, and opened is set if it has.
	open   time.Duration
	opened bool
}

// NewMachine returns the Machine of a desktop that has not started and has no lease.
func NewMachine(limits Limits) *Machine { return &Machine{limits: limits} }

// Granted takes a lease of which so much was left when it was requested.
func (m *Machine) Granted(asked, left, now time.Duration) {
	if m.advance(now); m.over || left <= 0 || asked > now || asked+left <= now {
		return
	}
	m.held, m.until = true, max(m.until, asked+left)
}

func (m *Machine) advance(now time.Duration) {
	m.over = m.over || m.held && now >= m.until
}

// Left returns how long the lease still lasts, and zero without one.
func (m *Machine) Left(now time.Duration) time.Duration {
	if m.advance(now); m.over || !m.held {
		return 0
	}
	return m.until - now
}

// MayRun returns nil while the desktop may run, and else why it may not.
func (m *Machine) MayRun(now time.Duration) error {
	switch m.advance(now); {
	case m.over:
		return fmt.Errorf("the lease was over %s ago", (now - m.until).Round(time.Second))
	case !m.held:
		return errNoLease
	default:
		return nil
	}
}

// Runs records that the desktop's container has started.
func (m *Machine) Runs(now time.Duration) {
	if !m.started {
		m.started, m.began = true, now
	}
}

// Started reports whether it has.
func (m *Machine) Started() bool { return m.started }

// Answers records that the desktop has answered on its port.
func (m *Machine) Answers(now time.Duration) {
	m.opened, m.open = true, now
}

// Alive returns nil while the desktop is to go on.
func (m *Machine) Alive(now time.Duration) error {
	if err := m.MayRun(now); err != nil {
		return err
	}
	switch {
	case m.opened && now-m.open >= m.limits.Closed:
		return fmt.Errorf("the desktop has not answered on its port for %s", (now - m.open).Round(time.Second))
	case !m.opened && m.started && now-m.began >= m.limits.Start:
		return fmt.Errorf("the desktop has not answered on its port within %s", m.limits.Start)
	default:
		return nil
	}
}
