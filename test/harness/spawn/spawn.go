package spawn

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// The kernel sends Pdeathsig when the thread that forked the child ends, not when the process
// does, and Go may end any thread. So one goroutine, locked to its thread until this process
// ends, forks every child. Then whatever ends the harness, kill -9 included, ends its
// children.
var (
	once  sync.Once
	queue chan request
)

type request struct {
	cmd   *exec.Cmd
	reply chan error
}

// Start starts the command. Unless it is detached it ends with this process, and is
// in a process group of its own; a detached one is in a session of its own.
func Start(cmd *exec.Cmd, detach bool) error {
	if detach {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	once.Do(func() {
		queue = make(chan request)
		go func() {
			runtime.LockOSThread() // never unlocked
			for r := range queue {
				r.reply <- r.cmd.Start()
			}
		}()
	})
	r := request{cmd: cmd, reply: make(chan error, 1)}
	queue <- r
	return <-r.reply
}
