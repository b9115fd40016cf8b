package kubelet

import (
	"context"
	"sync"
	"time"
)

// A loop runs functions one after the other, so that they need no locks. Adding one never
// blocks.
type loop struct {
	mu    sync.Mutex
	todo  []func()
	woken chan struct{}
}

func newLoop() *loop { return &loop{woken: make(chan struct{}, 1)} }

// do makes the loop call f, after all that were added before.
func (l *loop) do(f func()) {
	l.mu.Lock()
	l.todo = append(l.todo, f)
	l.mu.Unlock()
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// after makes the loop call f once d has passed.
func (l *loop) after(d time.Duration, f func()) { time.AfterFunc(d, func() { l.do(f) }) }

func (l *loop) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.woken:
		}
		l.mu.Lock()
		todo := l.todo
		l.todo = nil
		l.mu.Unlock()
		for _, f := range todo {
			f()
		}
	}
}
