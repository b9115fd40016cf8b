package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Placements alone are measured with the agents paused, so that only the hub and its
// API server are at work. It ends before the hub suspects the members, which send no
// heartbeats (docs/design.md, section 5).
const (
	placementsAtMost = 300
	placementsWithin = 10 * time.Second
	// capacityReturns is longer than a member takes to report the capacity of deleted sessions.
	capacityReturns = 3 * time.Second
)

// placements records the statuses that a watcher of the hub saw on each session until
// it was placed, and when it was.
type placements struct {
	statuses map[string][]v1alpha1.SessionStatus
	at       map[string]time.Time
	last     time.Time
}

func newPlacements() *placements {
	return &placements{statuses: map[string][]v1alpha1.SessionStatus{}, at: map[string]time.Time{}}
}

func (p *placements) see(s *v1alpha1.VDISession) {
	if _, placed := p.at[s.Name]; placed {
		return
	}
	var before v1alpha1.SessionStatus
	if seen := p.statuses[s.Name]; len(seen) > 0 {
		before = seen[len(seen)-1]
	}
	if !equality.Semantic.DeepEqual(before, s.Status) {
		p.statuses[s.Name] = append(p.statuses[s.Name], s.Status)
	}
	if s.Status.Placement != nil {
		p.last = time.Now()
		p.at[s.Name] = p.last
	}
}

// placements compares how many sessions the hub places per second, from their
// creation, with the rate of a bare client that writes the same statuses to the
// same API server.
func (m *measurement) placements(ctx context.Context) (err error) {
	if err := pause(ctx, capacityReturns); err != nil {
		return err
	}
	for _, member := range m.fleet.Members {
		if err := member.Agent.Pause(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, member.Agent.Resume()) }()
	}
	n := min(m.sessions, placementsAtMost)
	seen, took, err := m.placeByHub(ctx, n)
	if err != nil {
		return err
	}
	placed := len(seen.at)
	m.claim(placed == n, "with its members paused, the hub placed %d sessions of %d within %s", placed, n, placementsWithin)
	if placed == 0 {
		return nil
	}
	for _, r := range m.fleet.Hub.Replicas {
		if err := r.Stop(); err != nil {
			return err
		}
	}
	bareTook, writes, err := m.placeBare(ctx, seen)
	if err != nil {
		return err
	}
	rate, bareRate := float64(placed)/took.Seconds(), float64(placed)/bareTook.Seconds()
	fmt.Printf("\nplacements end to end, from create to a placement that is durable, members paused:\n")
	fmt.Printf("  hub          %d in %s: %.0f a second\n", placed, round(took), rate)
	fmt.Printf("  bare client  %d in %s: %.0f a second, with the same %.2f statuses a session on the same API server\n",
		placed, round(bareTook), bareRate, float64(writes)/float64(placed))
	fmt.Printf("  the hub places %.2f times as many a second as the bare client writes\n", rate/bareRate)
	return nil
}

// placeByHub creates n sessions and watches until all are placed.
func (m *measurement) placeByHub(ctx context.Context, n int) (*placements, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, placementsWithin)
	defer cancel()
	seen := newPlacements()
	began := time.Now()
	creating, cctx := errgroup.WithContext(ctx)
	creating.SetLimit(bareWorkers + 1)
	creating.Go(func() error { return seen.await(cctx, m.hub, n) })
	for i := range n {
		creating.Go(func() error {
			s := newSession(i, m.template)
			s.Name = fmt.Sprintf("placed-%05d", i)
			return m.hub.Create(cctx, s)
		})
	}
	if err := creating.Wait(); err != nil && ctx.Err() == nil {
		return nil, 0, fmt.Errorf("placing sessions: %w", err)
	}
	return seen, seen.last.Sub(began), nil
}

// await waits for n placements, or the end of the context. It watches again whenever
// the API server ends a watch.
func (p *placements) await(ctx context.Context, hub client.WithWatch, n int) error {
	for len(p.at) < n {
		w, err := hub.Watch(ctx, &v1alpha1.VDISessionList{}, client.InNamespace(namespace))
		if err != nil {
			return fmt.Errorf("watching the sessions: %w", err)
		}
		err = p.read(ctx, w, n)
		w.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// read reads one watch until n sessions are placed or it ends.
func (p *placements) read(ctx context.Context, w watch.Interface, n int) error {
	for len(p.at) < n {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if s, ok := e.Object.(*v1alpha1.VDISession); ok && e.Type != watch.Deleted {
				p.see(s)
			}
		}
	}
	return nil
}

// placeBare creates a session for each placed one, and writes the same statuses to it.
// It returns how many statuses were written.
func (m *measurement) placeBare(ctx context.Context, seen *placements) (took time.Duration, writes int, err error) {
	began := time.Now()
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(bareWorkers)
	var mu sync.Mutex
	i := 0
	for name := range seen.at {
		s := newSession(i, m.template)
		s.Name = fmt.Sprintf("bare-%05d", i)
		i++
		group.Go(func() error {
			if err := m.hub.Create(gctx, s); err != nil {
				return fmt.Errorf("creating a session: %w", err)
			}
			for _, status := range seen.statuses[name] {
				if err := patchStatus(gctx, m.hub, s, status); err != nil {
					return fmt.Errorf("writing a status: %w", err)
				}
				mu.Lock()
				writes++
				mu.Unlock()
			}
			return nil
		})
	}
	err = group.Wait()
	return time.Since(began), writes, err
}
