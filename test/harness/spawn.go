package harness

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// The kernel sends Pdeathsig when the thread that forked the child ends, not
// when the process does, and Go ends threads as it likes. So every child is
// forked by one goroutine that is locked to its thread for as long as this
// process lives. Then Pdeathsig means what it should: whatever ends the
// harness, kill -9 included, ends its children.
var (
	spawnOnce  sync.Once
	spawnQueue chan spawnRequest
)

type spawnRequest struct {
	cmd   *exec.Cmd
	reply chan error
}

func spawn(cmd *exec.Cmd, detach bool) error {
	if detach {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	spawnOnce.Do(func() {
		spawnQueue = make(chan spawnRequest)
		go func() {
			runtime.LockOSThread() // never unlocked
			for request := range spawnQueue {
				request.reply <- request.cmd.Start()
			}
		}()
	})
	request := spawnRequest{cmd: cmd, reply: make(chan error, 1)}
	spawnQueue <- request
	return <-request.reply
}
