package workdir

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// A reaper removes a fleet's directory if this process ends without doing so: by a panic, a
// signal, os.Exit or kill -9. It is a shell in a session of its own that waits for the end of
// its standard input, which the kernel closes when this process ends.
//
// Together with Pdeathsig it is why the harness needs no signal handlers, which
// would get in the way of Ginkgo's.
type reaper struct {
	stdin io.WriteCloser
	cmd   *exec.Cmd
}

// reaperScript retries for a while, since the processes that end at the same moment may still
// create files.
const reaperScript = `read -r line && [ "$line" = done ] && exit 0
i=0
while [ -e "$0" ] && [ $i -lt 100 ]; do
	rm -rf -- "$0" 2>/dev/null
	i=$((i+1))
	sleep 0.1
done`

func startReaper(dir string) (*reaper, error) {
	cmd := exec.Command("/bin/sh", "-c", reaperScript, dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting reaper: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting reaper: %w", err)
	}
	return &reaper{stdin: stdin, cmd: cmd}, nil
}

// dismiss ends the reaper without letting it remove anything.
func (r *reaper) dismiss() {
	if r == nil {
		return
	}
	_, _ = io.WriteString(r.stdin, "done\n")
	_ = r.stdin.Close()
	_ = r.cmd.Wait()
}
