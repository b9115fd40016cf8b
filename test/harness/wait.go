package harness

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollInterval is how often conditions are checked.
const pollInterval = 50 * time.Millisecond

// ProcessDiedError is the unexpected end of a process.
type ProcessDiedError struct {
	Name string
	How  string // as "exit status 1"
	Log  string // file
	Tail string // its last lines
}

func (e *ProcessDiedError) Error() string {
	return fmt.Sprintf("%s died (%s), the end of %s:\n%s", e.Name, e.How, e.Log, e.Tail)
}

// WaitUntil polls ready until it returns nil. It fails at once, with the log's
// end, when the process ends.
func (p *Process) WaitUntil(ctx context.Context, ready func(context.Context) error) error {
	err := poll(ctx, func(ctx context.Context) error {
		if err := ready(ctx); err != nil {
			return errors.Join(err, p.ended())
		}
		return nil
	})
	var died *ProcessDiedError
	if err == nil || errors.As(err, &died) {
		return err
	}
	return fmt.Errorf("waiting for %s: %w, the end of %s:\n%s", p.Spec.Name, err, p.LogFile(), p.LogTail())
}

// poll calls check until it returns nil, a ProcessDiedError, or ctx ends.
func poll(ctx context.Context, check func(context.Context) error) error {
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		var died *ProcessDiedError
		if errors.As(err, &died) {
			return died
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w, last: %w", ctx.Err(), err)
		case <-time.After(pollInterval):
		}
	}
}

// ended returns a ProcessDiedError unless the process runs.
func (p *Process) ended() error {
	if p.Running() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	how := "ended"
	if p.state != nil {
		how = p.state.String()
	}
	return &ProcessDiedError{Name: p.Spec.Name, How: how, Log: p.LogFile(), Tail: p.LogTail()}
}

// diedUnexpectedly returns the error of the first process that was started and has ended
// by itself.
func diedUnexpectedly(processes ...*Process) error {
	for _, p := range processes {
		p.mu.Lock()
		unexpected := p.pid != 0 && !p.ending && !p.alive()
		p.mu.Unlock()
		if unexpected {
			return p.ended()
		}
	}
	return nil
}
