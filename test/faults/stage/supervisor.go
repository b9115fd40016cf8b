package stage

import (
	"sync"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// restartDelay is how long a process that has ended stays down: about what a kubelet takes for its
// first restart.
const restartDelay = 500 * time.Millisecond

// Supervisor restarts processes: replicas of hub and console, agents, doors, Karpenters, and the members'
// kube-schedulers, which end themselves when a killed API server contradicts what they bound.
type Supervisor struct {
	processes []*harness.Process
	logf      func(string, ...any)
	stop      chan struct{}
	done      sync.WaitGroup

	mu       sync.Mutex
	held     map[*harness.Process]bool
	ended    map[*harness.Process]time.Time
	restarts int
}

func startSupervisor(fleet *harness.Fleet, logf func(string, ...any)) *Supervisor {
	s := &Supervisor{logf: logf, stop: make(chan struct{}), held: map[*harness.Process]bool{}, ended: map[*harness.Process]time.Time{}}
	for _, r := range fleet.Hub.Replicas {
		s.processes = append(s.processes, r.Process)
	}
	for _, c := range fleet.Console.Replicas {
		s.processes = append(s.processes, c.Process)
	}
	for _, m := range fleet.Members {
		for _, a := range m.Agents {
			s.processes = append(s.processes, a.Process)
		}
		if m.Door != nil {
			s.processes = append(s.processes, m.Door.Process)
		}
		s.processes = append(s.processes, m.ControlPlane.Scheduler)
		if m.ControlPlane.Karpenter != nil {
			s.processes = append(s.processes, m.ControlPlane.Karpenter.Process)
		}
	}
	s.done.Go(s.run)
	return s
}

func (s *Supervisor) close() {
	close(s.stop)
	s.done.Wait()
}

// Hold keeps a process down once it has ended, or allows it to start again.
func (s *Supervisor) Hold(p *harness.Process, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[p] = held
}

// ReleaseAll allows every process to start again.
func (s *Supervisor) ReleaseAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.held)
}

// Restarts returns how often a process was started again.
func (s *Supervisor) Restarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts
}

func (s *Supervisor) run() {
	for {
		select {
		case <-s.stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
		s.mu.Lock()
		for _, p := range s.processes {
			s.check(p, time.Now())
		}
		s.mu.Unlock()
	}
}

func (s *Supervisor) check(p *harness.Process, now time.Time) {
	switch since, down := s.ended[p]; {
	case p.Running():
		delete(s.ended, p)
	case !down:
		s.ended[p] = now
	case !s.held[p] && now.Sub(since) >= restartDelay:
		delete(s.ended, p)
		s.restarts++
		if err := p.Start(); err != nil {
			s.logf("supervisor: %v", err)
		}
	}
}
