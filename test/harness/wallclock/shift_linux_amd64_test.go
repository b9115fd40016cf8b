package wallclock

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// shiftedEnv is set in the process whose clock is shifted.
const shiftedEnv = "WALLCLOCK_SHIFTED"

func TestMain(m *testing.M) {
	if os.Getenv(shiftedEnv) == "" {
		os.Exit(m.Run())
	}
	go func() { // a process that reads its clock all the time is rarely outside its vDSO
		for !time.Now().IsZero() {
			runtime.Gosched()
		}
	}()
	start := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(time.Now().Unix(), int64(time.Since(start).Seconds()))
	}
}

func TestAProcessReadsAnotherWallClock(t *testing.T) {
	x := NewWithT(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), shiftedEnv+"=1")
	in, err := cmd.StdinPipe()
	x.Expect(err).NotTo(HaveOccurred())
	out, err := cmd.StdoutPipe()
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(cmd.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	answers := bufio.NewReader(out)
	read := func() (wall, passed int64) {
		_, err := fmt.Fprintln(in)
		x.Expect(err).NotTo(HaveOccurred())
		_, err = fmt.Fscanln(answers, &wall, &passed)
		x.Expect(err).NotTo(HaveOccurred())
		return wall - time.Now().Unix(), passed
	}
	for _, by := range []time.Duration{0, time.Hour, -10 * time.Minute, 0} {
		x.Expect(Shift(cmd.Process.Pid, by)).To(Succeed())
		ahead, passed := read()
		x.Expect(ahead).To(BeNumerically("~", by.Seconds(), 5))
		x.Expect(passed).To(BeNumerically("<", 60), "time that passes is not touched")
	}
}
