package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

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
