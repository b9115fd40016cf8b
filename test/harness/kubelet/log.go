package kubelet

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// What a line of the log of containers records.
const (
	// Boot means that the member's machines are powered on; nothing runs yet.
	Boot = "boot"
	// PowerOff means that a power cut has ended all containers of the member.
	PowerOff = "power-off"
	// Start means that a container begins to run.
	Start = "start"
	// Stop means that a container got SIGTERM; it runs until its Exit.
	Stop = "stop"
	// Exit means that a container has ended.
	Exit = "exit"
)

// Record is a line of the log of containers.
type Record struct {
	// Boottime is CLOCK_BOOTTIME in nanoseconds: one clock for all members of a machine,
	// which is never set.
	Boottime  int64     `json:"boottime"`
	Wall      time.Time `json:"wall"`
	Member    string    `json:"member"`
	What      string    `json:"what"`
	Node      string    `json:"node,omitempty"`
	PodUID    string    `json:"podUID,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Pod       string    `json:"pod,omitempty"`
	Container string    `json:"container,omitempty"`
	// Session is the UID of the session, empty if the Pod has none.
	Session string `json:"session,omitempty"`
	Epoch   string `json:"epoch,omitempty"`
	// Restart counts the container's runs in its Pod, from 0.
	Restart int32 `json:"restart,omitempty"`
	// ExitCode is set for an Exit.
	ExitCode int32 `json:"exitCode,omitempty"`
	// Reason is why a container was stopped; set for a Stop.
	Reason string `json:"reason,omitempty"`
}

// Log is a member's log of containers, open for appending.
type Log struct {
	member string
	file   *os.File
}

// OpenLog opens the log and creates it and its directory if need be. It ends a line that an
// earlier process left incomplete.
func OpenLog(path, member string) (*Log, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("opening log of containers: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening log of containers: %w", err)
	}
	log := &Log{member: member, file: file}
	if err := log.endTornLine(); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("opening log of containers: %w", err)
	}
	return log, nil
}

func (l *Log) endTornLine() error {
	size, err := l.file.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := l.file.ReadAt(last, size-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = l.file.WriteString("\n")
	return err
}

// Write stamps the record and appends it by one system call, so that readers see it once
// Write returns, even if this process dies. It does not sync to disk: the log need not
// survive a crash of the machine, and tests would measure the disk.
func (l *Log) Write(r Record) error {
	r.Member, r.Wall = l.member, time.Now()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return fmt.Errorf("writing log of containers: %w", err)
	}
	r.Boottime = now.Nano()
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing log of containers: %w", err)
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("writing log of containers: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }
