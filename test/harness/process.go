package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/harness/spawn"
)

// stopGrace is how long Stop waits after SIGTERM before it sends SIGKILL.
const stopGrace = 10 * time.Second

// ProcessSpec defines a process. It is all that a restart needs.
type ProcessSpec struct {
	// Name is unique in its fleet, and names the log and pid files.
	Name string   `json:"name"`
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
	Env  []string `json:"env,omitempty"`
	// Dir is the fleet's directory, with logs/ and pids/ in it.
	Dir string `json:"dir"`
	// Detach makes the process outlive the one that started it.
	Detach bool `json:"detach,omitempty"`
}

// Process is one process of a fleet. It may be killed, paused and restarted;
// its arguments, ports and data stay.
type Process struct {
	Spec ProcessSpec

	mu     sync.Mutex
	pid    int
	born   uint64 // start time in clock ticks since boot, to recognize a reused pid
	exited chan struct{}
	state  *os.ProcessState // nil unless it was a child process and has ended
	ending bool             // by Kill or Stop, so the end is expected
}

// NewProcess returns a process that is not started.
func NewProcess(spec ProcessSpec) *Process {
	exited := make(chan struct{})
	close(exited)
	return &Process{Spec: spec, exited: exited}
}

// Start starts the process. Its output is appended to its log file.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive() {
		return fmt.Errorf("starting %s: already running as %d", p.Spec.Name, p.pid)
	}
	log, err := openLog(p.LogFile())
	if err != nil {
		return fmt.Errorf("starting %s: %w", p.Spec.Name, err)
	}
	defer log.Close()

	cmd := exec.Command(p.Spec.Path, p.Spec.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = p.Spec.Dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.Spec.Dir}, p.Spec.Env...)
	if err := spawn.Start(cmd, p.Spec.Detach); err != nil {
		return fmt.Errorf("starting %s: %w", p.Spec.Name, err)
	}
	p.pid, p.state, p.ending = cmd.Process.Pid, nil, false
	p.born, _ = bornAt(p.pid)
	exited := make(chan struct{})
	p.exited = exited
	go func() {
		_ = cmd.Wait()
		p.mu.Lock()
		p.state = cmd.ProcessState
		p.mu.Unlock()
		close(exited)
	}()
	return p.writePIDFile()
}

// PID returns the id of the process as it was last started, 0 if it never was.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Exited returns a channel that is closed when the current run of the process has ended.
func (p *Process) Exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

// Running reports whether the process runs, paused or not.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alive()
}

func (p *Process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Kill ends the process at once, as a power cut would (SIGKILL), and returns
// when it has ended. A process that has ended before is not an error.
func (p *Process) Kill() error {
	p.expectEnd()
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.Exited()
	p.removePIDFile()
	return nil
}

// Pause freezes the process (SIGSTOP): its connections stay open and are not
// served. It returns when the last of its threads has stopped, since one that
// still runs may answer.
func (p *Process) Pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(stopGrace); p.Running() && !p.threadsStopped(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("pausing %s: it still runs after %s", p.Spec.Name, stopGrace)
		}
	}
	return nil
}

// Resume continues a paused process (SIGCONT).
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

// Stop ends the process by SIGTERM, and kills it if it still runs after a grace of
// 10 s. A paused process is killed.
func (p *Process) Stop() error {
	p.expectEnd()
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if p.paused() {
		return p.Kill()
	}
	select {
	case <-p.Exited():
		p.removePIDFile()
		return nil
	case <-time.After(stopGrace):
		return p.Kill()
	}
}

// Restart stops the process and starts it again with the same arguments.
func (p *Process) Restart() error {
	if err := p.Stop(); err != nil {
		return err
	}
	return p.Start()
}

func (p *Process) expectEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ending = true
}

func (p *Process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("sending %s to %s: %w", sig, p.Spec.Name, err)
	}
	return nil
}

// LogFile returns the file that has the output of the process.
func (p *Process) LogFile() string {
	return filepath.Join(p.Spec.Dir, "logs", p.Spec.Name+".log")
}

// LogTail returns the last lines of the log, for error messages.
func (p *Process) LogTail() string {
	return tail(p.LogFile(), 15)
}

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

func tail(path string, lines int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	all := bytes.Split(bytes.TrimRight(content, "\n"), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return "\t" + string(bytes.Join(all, []byte("\n\t")))
}

// ticksPerSecond is the unit of CPU time in /proc: USER_HZ, 100 on every Linux
// that Go supports.
const ticksPerSecond = 100

// CPUTime returns the user and system time of the process (proc(5), stat, fields 14
// and 15), and 0 if it does not run.
func (p *Process) CPUTime() time.Duration {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticksPerSecond
}

// Resident returns the resident memory of the process in bytes, and 0 if it does not run.
func (p *Process) Resident() int64 { return memoryOf(p.PID(), "VmRSS") }

// Peak returns the most memory that the process has had in bytes, without the pages of files,
// which the kernel takes back before it ends a container for its limit; 0 if it does not run.
func (p *Process) Peak() int64 { return memoryOf(p.PID(), "VmHWM") - memoryOf(p.PID(), "RssFile") }

// memoryOf returns a field of /proc/PID/status (proc(5)), which is in KiB, in bytes.
func memoryOf(pid int, field string) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(raw), "\n"+field+":")
	kib, _ := strconv.ParseInt(strings.Fields(after + " 0")[0], 10, 64)
	return kib << 10
}
