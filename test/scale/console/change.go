package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Bounds while sessions change: front-door design, acceptance A12.
const (
	seenLate = 1.0
	cores    = 1.0
	memory   = 250.0
)

// versions has when each version was written, and how long it took until its user saw it.
type versions struct {
	mu      sync.Mutex
	written map[int]time.Time
	seen    []float64
}

func (v *versions) wrote(version int, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.written[version] = at
}

// saw records that a page shows a version. One that was written over before is seen by its successor.
func (v *versions) saw(version int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if at, ok := v.written[version]; ok {
		v.seen = append(v.seen, time.Since(at).Seconds())
		delete(v.written, version)
	}
}

// change changes sessions under the open pages of all users, of operators, and of one that does not read.
func (b *bench) change(ctx context.Context) error {
	fmt.Printf("\n%d open pages, and %d changes a second for %s\n", b.options.users+b.options.operators, b.options.rate, b.options.lasts)
	followed := &versions{written: map[int]time.Time{}}
	following, end := context.WithCancel(ctx)
	defer end()
	group, following := errgroup.WithContext(following)
	var open sync.WaitGroup
	open.Add(b.options.users + b.options.operators)
	for i := range b.options.users {
		v, err := b.visitor(user(i))
		if err != nil {
			return err
		}
		group.Go(func() error { return v.follow(following, "home", open.Done, followed.saw) })
	}
	for i := range b.options.operators {
		v, err := b.visitor(fmt.Sprintf("operator-%d@example.com", i), "operators")
		if err != nil {
			return err
		}
		group.Go(func() error { return v.follow(following, "sessions%3F", open.Done, func(int) {}) })
	}
	if err := b.stall(following, group); err != nil {
		return err
	}
	opened := make(chan struct{})
	go func() { open.Wait(); close(opened) }()
	select {
	case <-opened:
	case <-following.Done():
		return group.Wait()
	case <-time.After(2 * time.Minute):
		return errors.New("not all pages are open after two minutes")
	}
	console := b.fleet.Console.Replicas[0].Process
	began, used := time.Now(), console.CPUTime()
	changes, err := b.write(ctx, followed)
	took, spent := time.Since(began), console.CPUTime()-used
	time.Sleep(2 * time.Second) // the last are seen
	end()
	if err := errors.Join(err, group.Wait()); err != nil {
		return err
	}
	followed.mu.Lock()
	defer followed.mu.Unlock()
	fmt.Printf("  %.0f changes a second were written, %d of them seen; %d were written over before\n", float64(changes)/took.Seconds(), len(followed.seen), len(followed.written))
	fmt.Printf("  seen after, p50: %.3g s\n", quantile(followed.seen, 0.5))
	b.bound("seen after, p99", quantile(followed.seen, 0.99), seenLate, "s")
	b.bound("CPU of the console", spent.Seconds()/took.Seconds(), cores, "cores")
	b.bound("memory of the console, at its peak", float64(console.Peak())/(1<<20), memory, "MiB")
	return nil
}

// stall opens a page as a client that never reads.
func (b *bench) stall(ctx context.Context, group *errgroup.Group) error {
	v, err := b.visitor("stalled@example.com", "operators")
	if err != nil {
		return err
	}
	v.client.Transport.(*http.Transport).ReadBufferSize = 1
	response, _, err := v.get(ctx, "/events?page=sessions%3F")
	if err != nil {
		return err
	}
	group.Go(func() error {
		<-ctx.Done()
		return response.Body.Close()
	})
	return nil
}

// write writes changes at the rate, and returns how many.
func (b *bench) write(ctx context.Context, followed *versions) (changes int64, err error) {
	limiter := rate.NewLimiter(rate.Limit(b.options.rate), 1)
	deadline := time.Now().Add(b.options.lasts)
	var version, done atomic.Int64
	version.Store(int64(len(b.sessions)))
	group, ctx := errgroup.WithContext(ctx)
	for w := range writers {
		group.Go(func() error {
			for time.Now().Before(deadline) {
				if err := limiter.Wait(ctx); err != nil {
					return err
				}
				// Each writer has sessions of its own.
				own := len(b.sessions) / writers
				s := b.sessions[w*own+rand.IntN(own)] //nolint:gosec // no secret
				next := int(version.Add(1))
				before := client.MergeFrom(s.DeepCopy())
				s.Status.ExpirationTime = mark(next)
				at := time.Now()
				followed.wrote(next, at)
				if err := b.hub.Status().Patch(ctx, s, before); err != nil {
					return fmt.Errorf("changing %s: %w", s.Name, err)
				}
				done.Add(1)
			}
			return nil
		})
	}
	err = group.Wait()
	return done.Load(), err
}
