package harness_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// TestMain lets the test binary run as other programs: as a test that crashes, and as the
// programs of fake_test.go.
func TestMain(m *testing.M) {
	if runFake() {
		return
	}
	if end := os.Getenv("HARNESS_TEST_END"); end != "" {
		runAndEnd(end)
	}
	os.Exit(m.Run())
}

// runAndEnd starts a control plane, prints its directory and pids, and waits for its end.
func runAndEnd(end string) {
	cp, err := harness.StartControlPlane(context.Background(), harness.ControlPlaneOptions{APIOnly: true})
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	line := cp.Dir
	for _, process := range cp.Processes() {
		line += " " + strconv.Itoa(process.PID())
	}
	fmt.Println(line)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	panic("as the test wants")
}

func TestNothingIsLeftBehind(t *testing.T) {
	takesLong(t)
	for end, signal := range map[string]syscall.Signal{
		"panic": 0, "SIGINT": syscall.SIGINT, "SIGKILL": syscall.SIGKILL,
	} {
		t.Run("after "+end, func(t *testing.T) {
			ctx := testContext(t)
			child, dir, pids := startChild(t, end)
			if _, err := os.Stat(dir); err != nil {
				t.Fatal(err)
			}
			if signal != 0 {
				must(t, child.cmd.Process.Signal(signal))
			} else {
				_, err := child.stdin.Write([]byte("\n"))
				must(t, err)
			}
			if err := child.cmd.Wait(); err == nil {
				t.Error("the child ended well")
			}
			for _, pid := range pids {
				eventually(ctx, t, processGone(pid))
			}
			eventually(ctx, t, pathGone(dir))
		})
	}
}

func TestStopMayBeRepeatedAndKeepLeavesTheLogs(t *testing.T) {
	takesLong(t)
	dir := t.TempDir()
	cp := startControlPlane(testContext(t), t, harness.ControlPlaneOptions{APIOnly: true, Dir: dir, Keep: true})
	must(t, cp.Stop())
	must(t, cp.Stop())
	for _, process := range cp.Processes() {
		must(t, processGone(process.PID())(t.Context()))
	}
	if _, err := os.Stat(cp.APIServer.LogFile()); err != nil {
		t.Error(err)
	}
}

type child struct {
	cmd   *exec.Cmd
	stdin interface{ Write([]byte) (int, error) }
}

// startChild runs this binary as a test that ends abnormally. It returns the directory and
// the pids that are to be cleaned up.
func startChild(t *testing.T, end string) (child, string, []int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HARNESS_TEST_END="+end)
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	fields := strings.Fields(line)
	var pids []int
	for _, field := range fields[1:] {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(line)
		}
		pids = append(pids, pid)
	}
	return child{cmd, stdin}, fields[0], pids
}

func processGone(pid int) func(context.Context) error {
	return func(context.Context) error {
		if syscall.Kill(pid, 0) != nil {
			return nil
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, after, ok := strings.Cut(string(stat), ") "); !ok || after[0] == 'Z' {
			return nil
		}
		return fmt.Errorf("process %d is there: %s", pid, stat)
	}
}

func pathGone(path string) func(context.Context) error {
	return func(context.Context) error {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			return fmt.Errorf("%s still exists", path)
		}
		return nil
	}
}
