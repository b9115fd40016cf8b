package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pidRecord is the content of pids/NAME.json beside pids/NAME.pid. It identifies the process
// that was started, in case its pid was reused.
type pidRecord struct {
	PID  int         `json:"pid"`
	Born uint64      `json:"born"`
	Spec ProcessSpec `json:"spec"`
}

func (p *Process) pidFile(suffix string) string {
	return filepath.Join(p.Spec.Dir, "pids", p.Spec.Name+suffix)
}

func (p *Process) writePIDFile() error {
	record, err := json.MarshalIndent(pidRecord{PID: p.pid, Born: p.born, Spec: p.Spec}, "", "  ")
	if err != nil {
		return fmt.Errorf("recording pid of %s: %w", p.Spec.Name, err)
	}
	if err := os.MkdirAll(filepath.Dir(p.pidFile("")), 0o755); err != nil {
		return fmt.Errorf("recording pid of %s: %w", p.Spec.Name, err)
	}
	if err := os.WriteFile(p.pidFile(".json"), record, 0o644); err != nil {
		return fmt.Errorf("recording pid of %s: %w", p.Spec.Name, err)
	}
	if err := os.WriteFile(p.pidFile(".pid"), []byte(strconv.Itoa(p.pid)+"\n"), 0o644); err != nil {
		return fmt.Errorf("recording pid of %s: %w", p.Spec.Name, err)
	}
	return nil
}

// removePIDFile removes the pid but keeps the record, from which a later
// process may start it again.
func (p *Process) removePIDFile() {
	_ = os.Remove(p.pidFile(".pid"))
}

// attachProcess returns the process of the record, which another process may
// have started. It counts as running only if pid, start time and command line
// are still those recorded.
func attachProcess(record pidRecord) *Process {
	p := NewProcess(record.Spec)
	p.pid, p.born = record.PID, record.Born
	if !record.isOurs() {
		return p
	}
	exited := make(chan struct{})
	p.exited = exited
	go func() {
		for record.isOurs() {
			time.Sleep(20 * time.Millisecond)
		}
		close(exited)
	}()
	return p
}

func (r pidRecord) isOurs() bool {
	born, state := bornAt(r.PID)
	if born == 0 || born != r.Born || state == "Z" {
		return false
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.PID))
	if err != nil {
		return false
	}
	args := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
	return slices.Equal(args[1:], r.Spec.Args)
}

// bornAt returns when the process started, in clock ticks since boot, and its state letter; 0
// if it does not exist.
func bornAt(pid int) (uint64, string) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, ""
	}
	// The second field, the command's name, may hold spaces and parentheses.
	_, after, ok := strings.Cut(string(raw[strings.LastIndexByte(string(raw), ')'):]), " ")
	fields := strings.Fields(after)
	if !ok || len(fields) < 20 {
		return 0, ""
	}
	born, _ := strconv.ParseUint(fields[19], 10, 64)
	return born, fields[0]
}

func (p *Process) paused() bool {
	_, state := bornAt(p.PID())
	return state == "T"
}

// threadsStopped reports whether every thread of the process is stopped by a signal.
func (p *Process) threadsStopped() bool {
	files, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(p.PID()), "task", "*", "stat"))
	for _, file := range files {
		if raw, err := os.ReadFile(file); err == nil && !bytes.Contains(raw, []byte(") T ")) {
			return false
		}
	}
	return true
}

// attachAll reads every record of a fleet's directory.
func attachAll(dir string) (map[string]*Process, error) {
	files, err := filepath.Glob(filepath.Join(dir, "pids", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("reading pids: %w", err)
	}
	processes := make(map[string]*Process, len(files))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading pids: %w", err)
		}
		var record pidRecord
		if err := json.Unmarshal(raw, &record); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		processes[record.Spec.Name] = attachProcess(record)
	}
	return processes, nil
}

// State returns running, paused or ended.
func (p *Process) State() string {
	switch {
	case !p.Running():
		return "ended"
	case p.paused():
		return "paused"
	}
	return "running"
}
