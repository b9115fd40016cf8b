package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// Bounds of docs/design.md, section 10.
const (
	hubWrites     = 4.0
	renewalBound  = 250 * time.Millisecond
	takeoverBound = 30 * time.Second
	idleCores     = 0.1
	kibPerSession = 12.0
	// manySessions is from how many sessions on kibPerSession is enforced: with fewer, what
	// the hub needs without any counts more.
	manySessions = 50_000
)

func (f *fleet) session(i int) *v1alpha1.VDISession {
	return &v1alpha1.VDISession{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("s-%06d", i)},
		Spec:       v1alpha1.SessionSpec{User: fmt.Sprintf("user-%d@example.com", i/3), Template: templateName(i % f.options.templates)},
	}
}

// burst creates all sessions at once, and waits until all run.
func (f *fleet) burst(ctx context.Context) error {
	mark, err := harness.AuditMark(f.Hub.ControlPlane.AuditLog())
	if err != nil {
		return err
	}
	began := time.Now()
	watcher := f.watch(running)
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return watcher.await(ctx, f.options.sessions) })
	both.Go(func() error {
		group, creating := errgroup.WithContext(ctx)
		group.SetLimit(32)
		for i := range f.options.sessions {
			group.Go(func() error { return f.hub.Create(creating, f.session(i)) })
		}
		err := group.Wait()
		fmt.Printf("  %d sessions are created after %s\n", f.options.sessions, round(time.Since(began)))
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("  all placed after %s: %.0f placements a second\n", round(watcher.placed.Sub(began)), float64(f.options.sessions)/watcher.placed.Sub(began).Seconds())
	half := watcher.half.Sub(began)
	fmt.Printf("  all Running after %s: %.0f a second, half of them after %s, %.2f of that\n",
		round(took), float64(f.options.sessions)/took.Seconds(), round(half), half.Seconds()/took.Seconds())
	counts, err := harness.CountWrites(f.Hub.ControlPlane.AuditLog(), harness.CountOptions{Offset: mark, Users: []string{harness.HubUser}})
	if err != nil {
		return err
	}
	writes := 0
	for _, c := range counts {
		if c.Resource != "memberclusters" && c.Resource != "vditemplates" {
			writes += c.Count
		}
	}
	atMost(f, "hub writes a session", float64(writes)/float64(f.options.sessions), hubWrites)
	f.created = f.options.sessions
	return nil
}

// watcher follows the sessions of the hub.
type watcher struct {
	f      *fleet
	wanted func(*v1alpha1.VDISession) bool
	have   map[types.UID]bool
	seen   map[types.UID]bool
	// placed is when the last session was placed first, and half when half of the expected
	// ones were as wanted.
	placed, half time.Time
}

func running(s *v1alpha1.VDISession) bool { return s.Status.Phase == v1alpha1.PhaseRunning }

// watch counts the sessions for which wanted holds.
func (f *fleet) watch(wanted func(*v1alpha1.VDISession) bool) *watcher {
	return &watcher{f: f, wanted: wanted, have: map[types.UID]bool{}, seen: map[types.UID]bool{}}
}

// await returns once wanted holds for that many sessions at once.
func (w *watcher) await(ctx context.Context, count int) error {
	for {
		stream, err := w.f.hub.Watch(ctx, &v1alpha1.VDISessionList{}, client.InNamespace(namespace))
		if err != nil {
			return fmt.Errorf("%d of %d sessions are as expected: %w", len(w.have), count, err)
		}
		progress := time.NewTicker(30 * time.Second)
		for open := true; open; {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%d of %d sessions are as expected: %w", len(w.have), count, ctx.Err())
			case <-progress.C:
				fmt.Printf("    %d of %d, %d placed\n", len(w.have), count, len(w.seen))
			case e, more := <-stream.ResultChan():
				open = more
				s, ok := e.Object.(*v1alpha1.VDISession)
				if !ok {
					continue
				}
				w.observe(s)
				if w.half.IsZero() && len(w.have) >= count/2 {
					w.half = time.Now()
				}
				if len(w.have) == count {
					stream.Stop()
					return nil
				}
			}
		}
		progress.Stop()
	}
}

func (w *watcher) observe(s *v1alpha1.VDISession) {
	if s.Status.Placement != nil && !w.seen[s.UID] {
		w.seen[s.UID], w.placed = true, time.Now()
	}
	if w.wanted(s) {
		w.have[s.UID] = true
	} else {
		delete(w.have, s.UID)
	}
}
