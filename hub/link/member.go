package link

import (
	"sync"
	"sync/atomic"
)

// memberCalls calls the Member of a connection, once it is admitted: one call at a
// time, and none after Closed.
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

// call calls f unless the Member is not there yet, or closed.
func (m *memberCalls) call(f func(Member)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if member := m.get(); member != nil && !m.closed {
		f(member)
	}
}

// close is the last call.
func (m *memberCalls) close(reason error) {
	m.call(func(member Member) {
		m.closed = true
		member.Closed(reason)
	})
}
