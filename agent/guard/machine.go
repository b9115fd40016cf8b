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

// Machine decides whether a desktop may go on. Its times are those of a clock that
// never stands still. It is not safe for concurrent use.
type Machine struct {
	limits Limits
	// until is when the lease is over; held: there was one. over: it has ended, for
	// good.
	until      time.Duration
	held, over bool
	// began is when the kubelet first asked after the desktop, which runs since;
	// before, nobody can expect it to answer.
	began   time.Duration
	started bool
	// open is when it was last seen to answer; opened: it was.
	open   time.Duration
	opened bool
}

// NewMachine is of a desktop that has not started and has no lease.
func NewMachine(limits Limits) *Machine { return &Machine{limits: limits} }

// Granted says that so much was left of the lease at the earliest when it was
// asked for.
func (m *Machine) Granted(asked, left, now time.Duration) {
	if m.look(now); m.over || left <= 0 || asked > now || asked+left <= now {
		return
	}
	m.held, m.until = true, max(m.until, asked+left)
}

func (m *Machine) look(now time.Duration) {
	m.over = m.over || m.held && now >= m.until
}

// Left of the lease; zero: there is none.
func (m *Machine) Left(now time.Duration) time.Duration {
	if m.look(now); m.over || !m.held {
		return 0
	}
	return m.until - now
}

// Leave is nil while the desktop may run, and else says why it may not.
func (m *Machine) Leave(now time.Duration) error {
	switch m.look(now); {
	case m.over:
		return fmt.Errorf("the lease was over %s ago", (now - m.until).Round(time.Second))
	case !m.held:
		return errNoLease
	default:
		return nil
	}
}

// Runs says that the desktop's container has started.
func (m *Machine) Runs(now time.Duration) {
	if !m.started {
		m.started, m.began = true, now
	}
}

// Started reports whether it has.
func (m *Machine) Started() bool { return m.started }

// Answers says that the desktop has answered on its port.
func (m *Machine) Answers(now time.Duration) {
	m.opened, m.open = true, now
}

// Alive is nil while the desktop is to go on.
func (m *Machine) Alive(now time.Duration) error {
	if err := m.Leave(now); err != nil {
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
