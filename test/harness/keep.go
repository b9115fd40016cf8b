package harness

import (
	"context"
	"strings"
	"sync"
	"time"
)

const (
	// keepEvery is the interval at which the processes are checked.
	keepEvery = 100 * time.Millisecond
	// restartDelay is the delay before a process that ended by itself is restarted: about
	// that of a kubelet's first restarts.
	restartDelay = 500 * time.Millisecond
)

// keeper restarts processes that have ended by themselves, as a kubelet would: a hub that
// lost its lock on a busy machine, an agent, a kube-scheduler whose cache was inconsistent.
// It does not restart what a test has ended, nor what has crashed: tests must notice a crash.
type keeper struct {
	down     map[*Process]time.Time // when the end of a process that is not restarted yet was found
	progress func(step string)
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// keepRunning starts a keeper of the processes, until close.
func keepRunning(processes []*Process, progress func(step string)) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{down: map[*Process]time.Time{}, progress: progress, stop: cancel}
	k.done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(keepEvery):
			}
			for _, p := range processes {
				k.check(p)
			}
		}
	})
	return k
}

// close ends the keeper, if there is one.
func (k *keeper) close() {
	if k != nil {
		k.stop()
		k.done.Wait()
	}
}

func (k *keeper) check(p *Process) {
	ended := diedUnexpectedly(p)
	if ended == nil {
		delete(k.down, p)
		return
	}
	since, down := k.down[p]
	switch {
	case !down:
		k.down[p] = time.Now()
		k.progress(ended.Error())
	case !strings.Contains(p.LogTail(), "goroutine ") && time.Since(since) >= restartDelay:
		delete(k.down, p)
		if err := p.Start(); err != nil {
			k.progress(err.Error())
		}
	}
}

// restartable returns the processes that Options.KeepRunning keeps running.
func (f *Fleet) restartable() []*Process {
	processes := append(f.Hub.processes(), f.Console.processes()...)
	for _, m := range f.Members {
		processes = append(processes, m.agentProcesses()...)
		processes = append(processes, m.doorProcesses()...)
		if m.ControlPlane.Scheduler != nil {
			processes = append(processes, m.ControlPlane.Scheduler)
		}
		if m.ControlPlane.Karpenter != nil {
			processes = append(processes, m.ControlPlane.Karpenter.Process)
		}
	}
	return processes
}
