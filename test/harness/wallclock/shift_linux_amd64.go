package wallclock

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// symbol is the vDSO function that returns the time.
const symbol = "__vdso_clock_gettime"

// call and end are machine code with the seconds between them, in 32 bits: it makes the
// system call and adds the seconds to tv_sec if the clock is CLOCK_REALTIME. Registers are
// those of the calling convention; the kernel changes rcx and r11, which are caller-saved.
var (
	call = []byte{
		0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: CLOCK_REALTIME is 0
		0x75, 0x07, // jne +7
		0x48, 0x81, 0x06, // add qword [rsi], seconds
	}
	end = []byte{0xc3} // ret
)

// Shift sets the wall clock that a running process reads ahead of the machine's by whole
// seconds; behind it if by is negative, and back if it is zero. Its monotonic and boot
// clocks, and so time.Since, are unchanged. A process that starts later, also a child of this
// one, has the machine's clock.
func Shift(pid int, by time.Duration) error {
	code := append(binary.LittleEndian.AppendUint32(bytes.Clone(call), uint32(int32(by/time.Second))), end...)
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("opening the memory of process %d: %w", pid, err)
	}
	defer memory.Close()
	vdso, err := find(pid)
	if err != nil {
		return err
	}
	at, err := vdso.entry(memory, len(code))
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	return stopped(pid, vdso, func() error {
		if _, err := memory.WriteAt(code, int64(at)); err != nil {
			return fmt.Errorf("changing the clock of process %d: %w", pid, err)
		}
		return nil
	})
}

// region is where the kernel has mapped its functions into a process.
type region struct{ from, to uint64 }

func find(pid int) (region, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return region{}, fmt.Errorf("reading the mappings of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		var r region
		if _, err := fmt.Sscanf(line, "%x-%x", &r.from, &r.to); err != nil {
			return region{}, fmt.Errorf("reading the mappings of process %d: %w", pid, err)
		}
		return r, nil
	}
	return region{}, fmt.Errorf("process %d reads the time from the kernel: it has no vDSO", pid)
}

// entry returns the address of the function, which must have space for size bytes of code.
func (r region) entry(memory io.ReaderAt, size int) (uint64, error) {
	image := make([]byte, r.to-r.from)
	if _, err := memory.ReadAt(image, int64(r.from)); err != nil {
		return 0, fmt.Errorf("reading its vDSO: %w", err)
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, fmt.Errorf("reading its vDSO: %w", err)
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("reading its vDSO: %w", err)
	}
	for _, s := range symbols {
		if s.Name == symbol && s.Size >= uint64(size) {
			return r.from + s.Value, nil
		}
	}
	return 0, fmt.Errorf("its vDSO has no %s of %d bytes", symbol, size)
}

// stopTimeout is how long a process may take to stop outside its vDSO: each attempt waits
// until all of its threads have stopped, which takes a scheduling round on a busy machine.
const stopTimeout = time.Minute

// stopped runs f while no thread of the process runs or is in its vDSO.
func stopped(pid int, vdso region, f func() error) error {
	once := func(ctx context.Context) (done bool, err error) {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			return false, fmt.Errorf("stopping process %d: %w", pid, err)
		}
		defer func() { err = errors.Join(err, unix.Kill(pid, unix.SIGCONT)) }()
		counters, err := programCounters(ctx, pid)
		if err != nil || slices.ContainsFunc(counters, vdso.contains) {
			return false, err
		}
		return true, f()
	}
	err := wait.PollUntilContextTimeout(context.Background(), time.Millisecond, stopTimeout, true, once)
	if wait.Interrupted(err) {
		return fmt.Errorf("process %d did not stop outside its vDSO within %s", pid, stopTimeout)
	}
	return err
}

func (r region) contains(address uint64) bool { return address >= r.from && address < r.to }

// programCounters waits until all threads of a process have stopped, and returns where each is.
func programCounters(ctx context.Context, pid int) (counters []uint64, err error) {
	err = wait.PollUntilContextCancel(ctx, 100*time.Microsecond, true, func(context.Context) (bool, error) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
		if err != nil {
			return false, err
		}
		counters = make([]uint64, len(threads))
		for i, thread := range threads {
			text, err := os.ReadFile(thread)
			if err != nil {
				return false, fmt.Errorf("reading a thread of process %d: %w", pid, err)
			}
			// The text is "running", or its last field is the program counter.
			fields := strings.Fields(string(text))
			if counters[i], err = strconv.ParseUint(fields[len(fields)-1], 0, 64); err != nil {
				return false, nil
			}
		}
		return len(threads) > 0, nil
	})
	return counters, err
}
