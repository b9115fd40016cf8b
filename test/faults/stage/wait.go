package stage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sleep waits for a time that is not scaled.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Poll calls try until it succeeds. It returns the last error, or the one before it if the limit
// cut the last call short.
func Poll(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var err error
	for {
		once, done := context.WithTimeout(ctx, 5*time.Second)
		last := try(once)
		done()
		if last == nil {
			return nil
		}
		if err == nil || ctx.Err() == nil && !errors.Is(last, context.DeadlineExceeded) {
			err = last
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", limit.Round(100*time.Millisecond), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
