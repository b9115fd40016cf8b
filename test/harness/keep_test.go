package harness

import (
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestWhatEndsByItselfIsStartedAgain(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	process := func(name, script string) *Process {
		p := NewProcess(ProcessSpec{Name: name, Path: "/bin/sh", Args: []string{"-c", script}, Dir: dir})
		g.Expect(p.Start()).To(Succeed())
		t.Cleanup(func() { _ = p.Kill() })
		return p
	}
	ends := process("ends", "[ -e began ] && exec sleep 60; touch began")
	crashes := process("crashes", "echo 'panic: a bug'; echo 'goroutine 1 [running]:'; exit 2")
	killed := process("killed", "exec sleep 60")
	g.Expect(killed.Kill()).To(Succeed())

	var mu sync.Mutex
	var steps []string
	k := keepRunning([]*Process{ends, crashes, killed}, func(step string) { mu.Lock(); defer mu.Unlock(); steps = append(steps, step) })
	defer k.close()
	first := ends.PID()
	g.Eventually(func() bool { return ends.PID() != first && ends.Running() }).WithTimeout(10 * time.Second).Should(BeTrue())
	g.Consistently(ends.Running, "1s").Should(BeTrue())
	g.Expect(crashes.Running()).To(BeFalse(), "a crash is to be seen")
	g.Expect(killed.Running()).To(BeFalse(), "a test has ended it")
	mu.Lock()
	defer mu.Unlock()
	g.Expect(steps).To(HaveLen(2), "what has ended is reported")
}
