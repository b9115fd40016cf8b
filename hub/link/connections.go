package link

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// connections are the open streams.
type connections struct {
	mu sync.Mutex
	// open is nil once the server drains.
	open map[*connection]bool
	// admitted are the open ones that the Directory has admitted, by member.
	admitted map[types.UID]*connection
	// tasks are the goroutines of all streams.
	tasks sync.WaitGroup
}

func newConnections() *connections {
	return &connections{open: map[*connection]bool{}, admitted: map[types.UID]*connection{}}
}

// add adds a connection and its two goroutines, unless the server drains.
func (s *connections) add(c *connection) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return false
	}
	s.open[c] = true
	s.tasks.Add(2)
	return true
}

// remove removes a connection, and no later one of its member.
func (s *connections) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if s.admitted[c.uid] == c {
		delete(s.admitted, c.uid)
	}
}

// admit makes a connection its member's, unless it has ended.
func (s *connections) admit(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[c] {
		s.admitted[c.uid] = c
	}
}

// of returns the connection of a process of a member's agent, or nil.
func (s *connections) of(member types.UID, instance string) *connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.admitted[member]; c != nil && c.instance == instance {
		return c
	}
	return nil
}

func (s *connections) all() []*connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.open))
}

// At shutdown a leader closes its streams one by one, so that not all agents of the
// fleet connect to the next one at once: one every drainGap, all within 1/drainShare
// of Timeouts.Drain. Agents add their own delay.
const (
	drainGap   = 2 * time.Millisecond
	drainShare = 5
)

// endAll ends every stream in random order, spread over at most a time. New ones are
// refused.
func (s *connections) endAll(reason error, over time.Duration) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.open))
	s.open = nil
	s.mu.Unlock()
	// A map's order is not random enough: it has runs.
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	begin := time.Now()
	for i, c := range all {
		due := min(time.Duration(i)*drainGap, over*time.Duration(i)/time.Duration(len(all)))
		time.Sleep(due - time.Since(begin))
		c.end(reason)
	}
}

// wait waits for calls of Members that are in progress, at most for a timeout.
func (s *connections) wait(timeout time.Duration) error {
	done := make(chan struct{})
	go func() {
		s.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(timeout):
		return errors.New("timed out waiting for reports of members that are being applied")
	}
}
