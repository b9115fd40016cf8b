package kubelet

import (
	"io"
	"os"
	"os/exec"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/test/harness/spawn"
)

// A process is one run of a container. The loop calls both methods; the run reports its end
// to the loop.
type process interface {
	term()
	kill()
}

// failedProcess stands in for a process that could not be started, until its failure is
// recorded.
type failedProcess struct{}

func (failedProcess) term() {}
func (failedProcess) kill() {}

// simulated is a container that is a timer and a listener.
type simulated struct {
	loop      *loop
	behavior  behavior
	ended     func(code int32)
	over      bool
	open      bool // its ports
	listeners []io.Closer
}

func (k *kubelet) simulate(c *container, ended func(int32)) process {
	s := &simulated{loop: k.loop, behavior: c.behavior(), ended: ended}
	if c.init && !c.sidecar() {
		s.end(0) // an init container completes at once
		return s
	}
	if s.behavior.crashes > 0 {
		k.loop.after(s.behavior.crashes, func() { s.end(exitFailed) })
	}
	k.loop.after(s.behavior.listens, func() {
		if s.over {
			return
		}
		s.open = true
		if s.behavior.local {
			return
		}
		for _, port := range c.spec.Ports {
			if port.Protocol != corev1.ProtocolTCP && port.Protocol != "" {
				continue
			}
			listener, err := k.serve(c.pod.object, c.pod.ip, port.ContainerPort)
			if err != nil {
				k.logError("listening for a desktop", c.pod.object, err)
				continue
			}
			s.listeners = append(s.listeners, listener)
		}
	})
	return s
}

// term ends it after the time that a desktop takes to save its work; it serves until then.
func (s *simulated) term() { s.loop.after(s.behavior.stops, func() { s.end(exitTerminated) }) }

func (s *simulated) kill() { s.end(exitKilled) }

func (s *simulated) end(code int32) {
	if s.over {
		return
	}
	s.over, s.open = true, false
	for _, listener := range s.listeners {
		_ = listener.Close()
	}
	s.ended(code)
}

// executed is a container that is a process of this machine.
type executed struct{ process *os.Process }

// execute starts a command that is killed when this process ends.
func (k *kubelet) execute(cmd *exec.Cmd, ended func(int32)) (process, error) {
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := spawn.Start(cmd, false); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait()
		ended(exitCode(cmd.ProcessState))
	}()
	return executed{cmd.Process}, nil
}

func (e executed) term() { _ = e.process.Signal(syscall.SIGTERM) }
func (e executed) kill() { _ = e.process.Kill() }

// exitCode returns 128 plus the number of a signal, as a container runtime does.
func exitCode(state *os.ProcessState) int32 {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(state.ExitCode())
}
