package guard

import (
	"fmt"
	"time"
)

// Limits are for a desktop that does not answer on its port.
type Limits struct {
	// Start is how long it may take to answer first.
	Start time.Duration
	// Closed is how long it may not answer after that.
	Closed time.Duration
}

// Machine decides whether a desktop may go on. Its times are of a clock that includes
// suspension. It is not safe for concurrent use.
type Machine struct {
	limits Limits
	// until is when the lease ends, held is set once there was one, and over once it has
	// ended, which is final.
	until      time.Duration
	held, over bool
	// began is when the kubelet first probed the desktop, and started is set since then.
	began   time.Duration
	started bool
	// open is when it last answered, and opened is set once it has.
	open   time.Duration
	opened bool
}

// NewMachine returns the Machine of a desktop that has not started and has no lease.
func NewMachine(limits Limits) *Machine { return &Machine{limits: limits} }

// Granted records a lease of which so much was left when the request was sent.
func (m *Machine) Granted(sent, left, now time.Duration) {
	if m.advance(now); m.over || left <= 0 || sent > now || sent+left <= now {
		return
	}
	m.held, m.until = true, max(m.until, sent+left)
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

// MayRun returns nil while the desktop may run, and otherwise why it may not.
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

// Answers records that the desktop has answered on its port.
func (m *Machine) Answers(now time.Duration) {
	m.opened, m.open = true, now
}

// Alive returns nil while the desktop may run and answers as it should.
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
