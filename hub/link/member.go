package link

import (
	"sync"
	"sync/atomic"
)

// memberCalls serializes the calls of the Member of an admitted connection, and makes
// none after Closed.
type memberCalls struct {
	member atomic.Pointer[Member]
	mu     sync.Mutex
	closed bool
}

// get returns the Member, or nil if the agent is not admitted.
func (m *memberCalls) get() Member {
	if member := m.member.Load(); member != nil {
		return *member
	}
	return nil
}

// call calls f unless the agent is not admitted or the Member is closed.
func (m *memberCalls) call(f func(Member)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if member := m.get(); member != nil && !m.closed {
		f(member)
	}
}

// close makes the last call.
func (m *memberCalls) close(reason error) {
	m.call(func(member Member) {
		m.closed = true
		member.Closed(reason)
	})
}
