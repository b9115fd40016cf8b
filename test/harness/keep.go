package harness

import (
	"context"
	"strings"
	"time"
)

const (
	// keepEvery is how often a fleet that is kept running is looked at.
	keepEvery = 100 * time.Millisecond
	// restartDelay is how long a process stays down that has ended by itself:
	// what a kubelet takes for the first restart or so.
	restartDelay = 500 * time.Millisecond
)

// keepRunning starts again what has ended by itself, as a kubelet would, until
// the fleet stops: a hub that lost its lock on a busy machine, an agent, a
// kube-scheduler that found its cache contradicted. What a test has ended stays
// so, and so does what has crashed: a test should see that.
func (f *Fleet) keepRunning() {
	ctx, cancel := context.WithCancel(context.Background())
	f.keeper = cancel
	var processes []*Process
	for _, r := range f.Hub.Replicas {
		processes = append(processes, r.Process)
	}
	for _, m := range f.Members {
		processes = append(processes, m.agentProcesses()...)
		if m.ControlPlane.Scheduler != nil {
			processes = append(processes, m.ControlPlane.Scheduler)
		}
	}
	f.kept.Go(func() {
		down := map[*Process]time.Time{}
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(keepEvery):
			}
			for _, p := range processes {
				f.care(p, down)
			}
		}
	})
}

func (f *Fleet) care(p *Process, down map[*Process]time.Time) {
	ended := diedUnasked(p)
	if ended == nil {
		delete(down, p)
		return
	}
	since, known := down[p]
	switch {
	case !known:
		down[p] = time.Now()
		f.options.Progress(ended.Error())
	case !strings.Contains(p.LogTail(), "goroutine ") && time.Since(since) >= restartDelay:
		delete(down, p)
		if err := p.Start(); err != nil {
			f.options.Progress(err.Error())
		}
	}
}
